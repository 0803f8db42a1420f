/*
 * Counts program starts by control group, and tells which processes end by a signal and which the
 * out-of-memory killer chose.
 *
 * Why these hooks: sched_process_exec fires once per program that was really started, whichever
 * system call asked for it; counting execve would count the failed ones too. An exit's status is
 * in no tracepoint's record, and reading it from the task would mean reading a kernel structure. So
 * the end is put together from what the kernel does (complete_signal and get_signal of
 * kernel/signal.c):
 *
 *   a signal that dumps core      signal_deliver with the default handler, and the process ends;
 *   SIGKILL                       signal_generate, and the process ends;
 *   any other that ends it        signal_generate, then every thread is handed SIGKILL. One that has
 *                                 a handler is delivered with it instead, which takes the note back.
 *
 * A thread is handed SIGKILL in an ordinary exit of its siblings as well, so that alone says nothing.
 * sched_process_exit of the leader is the end. mark_victim is the out-of-memory killer's own word.
 * All are rare but the two of signals, which fire once per signal and do one look-up at most.
 *
 * Not seen: a process that seccomp ends without a signal. Taken for a kill though it is none: a signal
 * that another thread than the leader waits for (sigwait, signalfd) and answers by leaving.
 *
 * Kernel 4.18 (bpf_get_current_cgroup_id). Needs CAP_BPF and CAP_PERFMON, before 5.8 CAP_SYS_ADMIN,
 * and a readable tracefs for all but on_exec.
 *
 * Defines: DELIVER_*, GENERATE_*, VICTIM_* offsets from the format files; CGROUPS_LIMIT,
 * FATAL_LIMIT, RING_PAGES (probes/process/limits.py has the numbers).
 */

#define SIGKILL 9
#define DELIVERED 0 /* TRACE_SIGNAL_DELIVERED of include/trace/events/signal.h */
/* Signals below 32 by default action (signal(7)); the numbers are those of x86-64 and arm64.
 * HARMLESS: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH. CORE: QUIT, ILL, TRAP, ABRT, BUS, FPE,
 * SEGV, XCPU, XFSZ, SYS. */
#define HARMLESS 0x10fe0000U
#define CORE 0x830009f8U

/* Streams of sw_produced and reasons of sw_lost: the order of kernel.py. */
enum { EXECS, ENDS };
enum { CGROUPS_FULL, FATAL_FULL, RING_FULL };
enum { KILLED, OOM_VICTIM };

/* 64 bytes, no padding. */
struct end {
	u64 monotonic_ns;
	u32 kind;
	u32 pid;
	u32 signal;
	u32 sender; /* 0: the process itself, by a fault */
	u32 certain; /* the process is ending because of it */
	u32 reserved;
	char comm[16];
	char sender_comm[16];
};

SW_COUNTERS(2, 3);

/* Program starts by id of the control group, which is 0 where there is no unified hierarchy. An
 * entry lives until the next flush. */
SW_HASH(execs, u64, u64, CGROUPS_LIMIT);

#ifdef RING_PAGES
/* Processes, and threads that were signalled by themselves, for which there is a deadly signal. It ends
 * them within milliseconds, or is taken back when it is handled; one that is blocked stays. Those
 * that are left over, because their leader had gone first, the reader sweeps out. */
SW_HASH(fatal, u32, struct end, FATAL_LIMIT);
/* 72 bytes each with the ring's header. */
SW_EVENTS(ends, RING_PAGES);
#endif

static inline void count_exec(void)
{
	u64 group = bpf_get_current_cgroup_id();
	u64 one = 1;
	u64 *count = sw_lookup(execs, &group);

	sw_count(sw_produced, EXECS);
	if (!count) {
		if (!sw_insert(execs, &group, &one))
			return;
		count = sw_lookup(execs, &group);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		sw_count(sw_lost, CGROUPS_FULL);
}

int on_exec(void *ctx)
{
	count_exec();
	return 0;
}

#ifdef RING_PAGES
static inline void condemn(u32 *who, struct end *end)
{
	if (sw_update(fatal, who, end))
		sw_count(sw_lost, FATAL_FULL);
}

/* 0: not at all, else the bit of a signal below 32, or 1 for one above, which all end. */
static inline u32 deadly(u32 signal)
{
	u32 bit = signal < 32 ? 1U << signal : 1;

	return bit & HARMLESS ? 0 : bit;
}

/* Only ever sets: a thread and its leader may both be told. */
static inline void confirm(u32 *who)
{
	struct end *end = sw_lookup(fatal, who);

	if (end)
		end->certain = 1;
}

int on_deliver(void *ctx)
{
	u32 signal = *(u32 *)(ctx + DELIVER_SIG_OFFSET);
	u64 handler = *(u64 *)(ctx + DELIVER_SA_HANDLER_OFFSET);
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id;
	u32 tgid = id >> 32;
	struct end end = {};

	if (!deadly(signal))
		return 0;
	if (handler) {
		sw_delete(fatal, &tgid);
		if (tid != tgid)
			sw_delete(fatal, &tid);
		return 0;
	}
	if (signal == SIGKILL) {
		confirm(&tgid);
		if (tid != tgid)
			confirm(&tid);
		return 0;
	}
	end.monotonic_ns = bpf_ktime_get_ns();
	end.signal = signal;
	end.certain = 1;
	condemn(&tgid, &end);
	return 0;
}

int on_generate(void *ctx)
{
	u32 signal = *(u32 *)(ctx + GENERATE_SIG_OFFSET);
	u32 bit = deadly(signal);
	struct end end = {};
	u32 target;

	if (!bit || (bit & CORE) || *(u32 *)(ctx + GENERATE_RESULT_OFFSET) != DELIVERED)
		return 0;
	target = *(u32 *)(ctx + GENERATE_PID_OFFSET);
	end.monotonic_ns = bpf_ktime_get_ns();
	end.signal = signal;
	end.certain = signal == SIGKILL;
	end.sender = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(&end.sender_comm, sizeof(end.sender_comm));
	condemn(&target, &end);
	return 0;
}

static inline void report(void *ctx, struct end *end)
{
	sw_count(sw_produced, ENDS);
	if (sw_output(ends, ctx, end))
		sw_count(sw_lost, RING_FULL);
}

int on_exit(void *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id;
	u32 tgid = id >> 32;
	struct end end = {};
	struct end *known = sw_lookup(fatal, &tid);

	if (!known)
		return 0;
	end = *known;
	sw_delete(fatal, &tid);
	if (!end.certain)
		return 0;
	if (tid != tgid) {
		/* It was sent to a thread, and takes the whole process along. */
		condemn(&tgid, &end);
		return 0;
	}
	end.kind = KILLED;
	end.pid = tgid;
	bpf_get_current_comm(&end.comm, sizeof(end.comm));
	report(ctx, &end);
	return 0;
}

#ifdef VICTIM_PID_OFFSET
int on_victim(void *ctx)
{
	struct end end = {};

	end.monotonic_ns = bpf_ktime_get_ns();
	end.kind = OOM_VICTIM;
	end.pid = *(u32 *)(ctx + VICTIM_PID_OFFSET);
	end.signal = SIGKILL;
	report(ctx, &end);
	return 0;
}
#endif
#endif
