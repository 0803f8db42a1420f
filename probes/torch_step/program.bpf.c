/*
 * Follows c10d::Reducer::finalize_backward, the last thing of a DistributedDataParallel backward
 * pass: it waits until all gradients are reduced. Its return ends a step; with Gloo its duration is
 * the wait that no compute hides.
 *
 * Exits are probed at their instructions. No return probe: a C++ exception cannot unwind through
 * its trampoline. An entry that an exception left stays open until the thread enters again.
 *
 * Why this function: it is exported, it is the one place where a rank is known to wait for others,
 * and it is called once a step, so that two traps a step are the whole cost. Kernel 4.17 (the uprobe
 * PMU; tracefs before and where the PMU is refused). Needs CAP_SYS_ADMIN.
 *
 * One record per thread, written by that thread alone, so nothing needs to be atomic. All sums only
 * grow; the reader takes differences and never deletes the record of a living thread.
 */

/* Threads that ran a backward pass and live: one per rank, so 4,096 are far above any node. 80 B
 * each. When full, the hit is lost and counted. */
struct thread {
	u64 hits;         /* entries and exits seen */
	u64 steps;        /* exits */
	u64 timed;        /* steps with a known start */
	u64 step_ns;      /* of timed steps, exit to exit */
	u64 step_wait_ns; /* of timed steps, entry to exit */
	u64 wait_ns;      /* closed waits */
	u64 abandoned;    /* entries with no exit */
	u64 open_since;   /* 0: not inside; CLOCK_MONOTONIC */
	u64 last_exit;
};

SW_HASH(threads, u64, struct thread, 4096);
SW_COUNTERS(1, 1);

/* A thread's first hit; lost where there is no room for its record. */
static inline void begin(u64 *key, struct thread *fresh)
{
	fresh->hits = 1;
	if (sw_update(threads, key, fresh))
		sw_count(sw_lost, 0);
}

int enter(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();
	struct thread fresh = {};
	struct thread *thread;

	sw_count(sw_produced, 0);
	thread = sw_lookup(threads, &key);
	if (!thread) {
		fresh.open_since = now;
		begin(&key, &fresh);
		return 0;
	}
	thread->hits += 1;
	if (thread->open_since) {
		thread->wait_ns += now - thread->open_since;
		thread->abandoned += 1;
	}
	thread->open_since = now;
	return 0;
}

int leave(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();
	struct thread fresh = {};
	struct thread *thread;
	u64 wait;

	sw_count(sw_produced, 0);
	thread = sw_lookup(threads, &key);
	if (!thread) {
		/* Attached in the middle of a call: the step ends here, its wait is unknown. */
		fresh.steps = 1;
		fresh.last_exit = now;
		begin(&key, &fresh);
		return 0;
	}
	thread->hits += 1;
	/* Not inside: the same file is attached under a second name (overlay mounts). */
	if (!thread->open_since)
		return 0;
	wait = now - thread->open_since;
	/* Closed before it is added: a reader in between sees too little and mends it next time. */
	thread->open_since = 0;
	thread->wait_ns += wait;
	if (thread->last_exit) {
		thread->step_ns += now - thread->last_exit;
		thread->step_wait_ns += wait;
		thread->timed += 1;
	}
	thread->last_exit = now;
	thread->steps += 1;
	return 0;
}

/* For a build whose exits cannot be found: the entry alone marks the step, and no wait is known. */
int mark(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();
	struct thread fresh = {};
	struct thread *thread;

	sw_count(sw_produced, 0);
	thread = sw_lookup(threads, &key);
	if (!thread) {
		fresh.steps = 1;
		fresh.last_exit = now;
		begin(&key, &fresh);
		return 0;
	}
	thread->hits += 1;
	thread->step_ns += now - thread->last_exit;
	thread->timed += 1;
	thread->last_exit = now;
	thread->steps += 1;
	return 0;
}
