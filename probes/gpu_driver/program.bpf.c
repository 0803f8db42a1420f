/*
 * Times ioctl calls of processes that use a GPU, and counts those that fail.
 *
 * Why these hooks. Where the kernel has kprobes: the driver's own ioctl functions, which nothing else
 * pays for; they do not know the file descriptor, so the device is told by the function. Elsewhere
 * the tracepoints sys_enter_ioctl and sys_exit_ioctl. Any tracepoint of a system call puts every
 * system call of the machine on the slow path, some tens of nanoseconds each (probe.py measures them
 * at start), so these are attached only while there is a process that maps the driver's library, and
 * not at all where the measured price is above `max_syscall_tax`.
 *
 * Kernel 4.17. Needs CAP_BPF and CAP_PERFMON (before 5.8 CAP_SYS_ADMIN), and for the tracepoints a
 * readable tracefs.
 *
 * Defines: ENTER_*, EXIT_* offsets from the format files; HOLDERS_LIMIT, OPEN_LIMIT, TOTALS_LIMIT,
 * RING_PAGES (probes/gpu_driver/limits.py has the numbers); SLOW_NS.
 */

/* Streams of sw_produced and reasons of sw_lost: the order of kernel.py. */
enum { CALLS, SLOW };
enum { OPEN_FULL, TOTALS_FULL, RING_FULL };

/* Who: for tracepoints a file descriptor, for kprobes the number of the driver's function, as
 * kernel.py attached them, beyond any descriptor. */
#define DRIVER(number) (0x80000000U + (number))

struct file {
	u32 tgid;
	u32 fd;
};

struct call {
	u64 since; /* CLOCK_MONOTONIC */
	u32 fd;
	u32 command;
};

struct total {
	u64 calls;
	u64 failures;
	u64 ns;
};

/* 40 bytes, no padding. */
struct slow {
	u64 monotonic_ns; /* of the return */
	u64 ns;
	u32 tgid;
	u32 tid;
	u32 fd;
	u32 command;
	s64 result;
};

SW_COUNTERS(2, 3);
/* Processes that map the driver's library; set by the reader. */
SW_HASH(holders, u32, u32, HOLDERS_LIMIT);
/* Calls that have not returned, by thread; one whose thread died stays until the reader sweeps. */
SW_HASH(open_calls, u64, struct call, OPEN_LIMIT);
/* Only grow; the reader takes differences and deletes what a dead process left. */
SW_HASH(totals, struct file, struct total, TOTALS_LIMIT);
/* 48 bytes each with the ring's header. */
SW_EVENTS(slow_calls, RING_PAGES);

static inline int enter(u32 fd, u32 command)
{
	u64 id = bpf_get_current_pid_tgid();
	struct call call = {};

	call.since = bpf_ktime_get_ns();
	call.fd = fd;
	call.command = command;
	if (sw_update(open_calls, &id, &call))
		sw_count(sw_lost, OPEN_FULL);
	return 0;
}

static inline void add(struct file *file, u64 ns, u64 failed)
{
	struct total fresh = {};
	struct total *total = sw_lookup(totals, file);

	if (!total) {
		fresh.calls = 1;
		fresh.failures = failed;
		fresh.ns = ns;
		if (!sw_insert(totals, file, &fresh))
			return;
		/* Full, or another thread was first. */
		total = sw_lookup(totals, file);
	}
	if (!total) {
		sw_count(sw_lost, TOTALS_FULL);
		return;
	}
	__sync_fetch_and_add(&total->calls, 1);
	__sync_fetch_and_add(&total->failures, failed);
	__sync_fetch_and_add(&total->ns, ns);
}

static inline int leave(void *ctx, s64 result)
{
	u64 id = bpf_get_current_pid_tgid();
	struct call *call = sw_lookup(open_calls, &id);
	struct file file = {};
	struct slow slow = {};
	u64 now = bpf_ktime_get_ns();

	if (!call)
		return 0;
	sw_count(sw_produced, CALLS);
	file.tgid = id >> 32;
	file.fd = call->fd;
	slow.ns = now - call->since;
	slow.fd = call->fd;
	slow.command = call->command;
	sw_delete(open_calls, &id);
	add(&file, slow.ns, result < 0);
	if (slow.ns < SLOW_NS)
		return 0;
	slow.monotonic_ns = now;
	slow.tgid = id >> 32;
	slow.tid = id;
	slow.result = result;
	sw_count(sw_produced, SLOW);
	if (sw_output(slow_calls, ctx, &slow))
		sw_count(sw_lost, RING_FULL);
	return 0;
}

#ifdef ENTER_FD_OFFSET
int on_enter(void *ctx)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!sw_lookup(holders, &tgid))
		return 0;
	return enter(*(u64 *)(ctx + ENTER_FD_OFFSET), *(u64 *)(ctx + ENTER_CMD_OFFSET));
}

int on_exit(void *ctx)
{
	return leave(ctx, *(s64 *)(ctx + EXIT_RET_OFFSET));
}
#else
/* long NAME(struct file *, unsigned int command, unsigned long): fs.h, file_operations. */
int enter_0(struct pt_regs *ctx) { return enter(DRIVER(0), PT_REGS_PARM2(ctx)); }
int enter_1(struct pt_regs *ctx) { return enter(DRIVER(1), PT_REGS_PARM2(ctx)); }
int enter_2(struct pt_regs *ctx) { return enter(DRIVER(2), PT_REGS_PARM2(ctx)); }
int enter_3(struct pt_regs *ctx) { return enter(DRIVER(3), PT_REGS_PARM2(ctx)); }

int on_return(struct pt_regs *ctx)
{
	return leave(ctx, PT_REGS_RC(ctx));
}
#endif
