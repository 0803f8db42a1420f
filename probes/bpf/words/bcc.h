/*
 * Map declarations of our programs, spelled for bcc; calls on maps are respelled by
 * probes/bpf/words/bcc.py, because bcc refuses them inside macros. A loader of precompiled (CO-RE)
 * objects supplies the same words as plain libbpf macros, and no program changes.
 */

#define SW_HASH(name, key_type, value_type, entries) \
	BPF_TABLE("hash", key_type, value_type, name, entries)
/* Forgets what was not used for longest when it is full (4.10). */
#define SW_LRU_HASH(name, key_type, value_type, entries) \
	BPF_TABLE("lru_hash", key_type, value_type, name, entries)
#define SW_PERCPU_HASH(name, key_type, value_type, entries) \
	BPF_TABLE("percpu_hash", key_type, value_type, name, entries)
#define SW_ARRAY(name, value_type, entries) BPF_TABLE("array", u32, value_type, name, entries)
#define SW_PERCPU_ARRAY(name, value_type, entries) \
	BPF_TABLE("percpu_array", u32, value_type, name, entries)

/*
 * Records for the reader. With a ring buffer: a slot that holds the ring in use, so that the reader
 * can replace it by a larger one; NAME_ring is the first, of `pages` pages; NAME_wake holds how many
 * bytes must lie in it before the reader is woken. Otherwise a perf buffer, sized by the reader.
 */
#ifdef SW_HAS_RING
#define SW_EVENTS(name, pages)                                             \
	BPF_RINGBUF_OUTPUT(name##_ring, pages);                            \
	BPF_TABLE("array_of_maps$" #name "_ring", int, int, name, 1);      \
	BPF_TABLE("array", u32, u64, name##_wake, 1)

/* Wakes the reader once, by the record that passes the mark, and leaves it alone otherwise: the flags
 * are BPF_RB_FORCE_WAKEUP and BPF_RB_NO_WAKEUP. 0: written. A record has a header of 8 bytes. */
static inline long sw_ring_output(void *ring, void *record, u64 size, u64 mark)
{
	u64 before = bpf_ringbuf_query(ring, 0 /* BPF_RB_AVAIL_DATA */);
	u64 flags = before <= mark && before + size + 8 > mark ? 2 : 1;

	return bpf_ringbuf_output(ring, record, size, flags);
}
#else
#define SW_EVENTS(name, pages) BPF_PERF_OUTPUT(name)
#endif

/* Copies from the tracepoint's record where its field is not aligned for a direct load. */
#ifdef SW_HAS_PROBE_READ_KERNEL
#define sw_read_kernel(to, size, from) bpf_probe_read_kernel(to, size, from)
#else
#define sw_read_kernel(to, size, from) bpf_probe_read(to, size, from)
#endif

/* Copies from the memory of the process that is running. */
#ifdef SW_HAS_PROBE_READ_KERNEL
#define sw_read_user(to, size, from) bpf_probe_read_user(to, size, from)
#else
#define sw_read_user(to, size, from) bpf_probe_read(to, size, from)
#endif

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/*
 * A user function's integer and pointer arguments at its entry, its result at an exit, for x86-64
 * (System V ABI: rdi, rsi, rdx, rcx, r8, r9) and arm64 (AAPCS64: x0 to x5). An `int` leaves the upper
 * half of its register undefined: cast to u32 or s32. Floating-point arguments are in none of them.
 */
#define SW_ARG1(ctx) ((u64)PT_REGS_PARM1(ctx))
#define SW_ARG2(ctx) ((u64)PT_REGS_PARM2(ctx))
#define SW_ARG3(ctx) ((u64)PT_REGS_PARM3(ctx))
#define SW_ARG4(ctx) ((u64)PT_REGS_PARM4(ctx))
#define SW_ARG5(ctx) ((u64)PT_REGS_PARM5(ctx))
#define SW_ARG6(ctx) ((u64)PT_REGS_PARM6(ctx))
#define SW_RETVAL(ctx) ((u64)PT_REGS_RC(ctx))
#define SW_INSTRUCTION_POINTER(ctx) ((u64)PT_REGS_IP(ctx))
#define SW_STACK_POINTER(ctx) ((u64)PT_REGS_SP(ctx))

/* Copies the n-th (from 0) eight bytes of the arguments that are passed on the stack; 0: done. Which
 * argument that is differs: x86-64 passes six in registers, arm64 eight. */
#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
#define SW_STACK_ARG(to, ctx, n) sw_read_user(to, 8, (void *)(SW_STACK_POINTER(ctx) + 8 * (n)))
#else
#define SW_STACK_ARG(to, ctx, n) sw_read_user(to, 8, (void *)(SW_STACK_POINTER(ctx) + 8 * (n) + 8))
#endif

/*
 * Adds to a counter of 8 bytes, whole: what __sync_fetch_and_add of a program becomes. Spelled out,
 * because the compiler now and then makes of that an instruction which also returns the old value,
 * though nobody asks for it, and kernels before 5.12 refuse that one.
 */
#define sw_add_whole(counter, value)                                                          \
	do {                                                                                  \
		_Static_assert(sizeof(*(counter)) == 8, "a counter has 8 bytes");             \
		asm volatile("lock *(u64 *)(%0 + 0) += %1"                                    \
			     :                                                                \
			     : "r"(counter), "r"((u64)(value))                                \
			     : "memory");                                                     \
	} while (0)

/* Every program has both: events after its filter, by stream, and losses, by reason. */
#define SW_COUNTERS(streams, reasons)               \
	SW_PERCPU_ARRAY(sw_produced, u64, streams); \
	SW_PERCPU_ARRAY(sw_lost, u64, reasons)
