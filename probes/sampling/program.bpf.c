/*
 * Looks 99 times a second at each CPU that is not idle: is it in one of the functions that are too hot
 * to be probed, in a process that is watched?
 *
 * Why this hook: a clock costs the same however often a function is called. It is the kernel's
 * cpu-clock (PERF_TYPE_SOFTWARE), which every machine has, virtual ones too. Kernel 4.9 (BPF programs
 * on perf events). Needs CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON.
 *
 * 99 and not 100, so that it does not keep in step with what happens every ten milliseconds.
 */

/* Processes that call something too hot: the ranks of a node. 392 B each. What does not fit is not
 * watched, and the reader knows. */
#ifndef MAX_PROCESSES
#define MAX_PROCESSES 256
#endif
/* Counters: one for each of these processes and function, one for each process. 8 B a CPU each. */
#ifndef MAX_SLOTS
#define MAX_SLOTS 4096
#endif

/* A few functions of a library are that hot, and the program walks over all of them. */
#define REGIONS 16

enum stream { SAMPLES, STREAMS };
enum reason { NO_SLOT, REASONS };

/* Where a function lies in a process; samples in it are counted in `slot`. Size 0: none. */
struct region {
	u64 start;
	u64 size;
	u64 slot;
};

/* Written by the reader alone; `slot` counts all samples of the process. */
struct watched {
	u64 slot;
	struct region regions[REGIONS];
};

SW_HASH(watched, u32, struct watched, MAX_PROCESSES);
/* Per CPU, so that nothing needs to be atomic: the program cannot interrupt itself. */
SW_PERCPU_ARRAY(samples, u64, MAX_SLOTS);
/* Nanoseconds that the program took. */
SW_PERCPU_ARRAY(took, u64, 1);
SW_COUNTERS(STREAMS, REASONS);

static __always_inline void count_in(u64 which)
{
	u32 slot = (u32)which;
	u64 *count = sw_lookup(samples, &slot);

	if (count)
		*count += 1;
	else
		sw_count(sw_lost, NO_SLOT);
}

/* The context of such a program begins with the registers at the interrupt. In the kernel they hold an
 * address of the kernel, which is in no function's region. */
int on_sample(struct pt_regs *ctx)
{
	u64 began = bpf_ktime_get_ns(), address = SW_INSTRUCTION_POINTER(ctx);
	u32 tgid = bpf_get_current_pid_tgid() >> 32, first = 0;
	struct watched *process = sw_lookup(watched, &tgid);
	u64 *spent;
	int i;

	sw_count(sw_produced, SAMPLES);
	if (process) {
		count_in(process->slot);
#pragma unroll
		for (i = 0; i < REGIONS; i++) {
			struct region *region = &process->regions[i];

			if (address - region->start < region->size)
				count_in(region->slot);
		}
	}
	spent = sw_lookup(took, &first);
	if (spent)
		*spent += bpf_ktime_get_ns() - began;
	return 0;
}
