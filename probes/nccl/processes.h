/* Who runs: the records of the running process and thread, the count of hits. */

static inline struct process *this_process(void)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *process = sw_lookup(processes, &tgid);
	struct process fresh = {};

	if (process)
		return process;
	fresh.born = bpf_ktime_get_ns();
	fresh.tgid = tgid;
	/* Another thread may have been first. */
	sw_insert(processes, &tgid, &fresh);
	process = sw_lookup(processes, &tgid);
	return process;
}

/* First thing after the filter; where there is no record, the hit is lost. */
static inline void hit(struct process *process)
{
	sw_count(sw_produced, CALLS);
	if (process)
		__sync_fetch_and_add(&process->hits, 1);
	else
		sw_count(sw_lost, LOST_THREADS);
}

/* The record of the running thread, a fresh one where the pid belonged to another process. */
static inline struct thread *thread_of(struct process *process, u64 *key)
{
	struct thread fresh = {};
	struct thread *thread;

	if (!process)
		return 0;
	thread = sw_lookup(threads, key);
	if (thread && thread->owner == process->born)
		return thread;
	fresh.owner = process->born;
	if (sw_update(threads, key, &fresh)) {
		sw_count(sw_lost, LOST_THREADS);
		return 0;
	}
	return sw_lookup(threads, key);
}

/* The thread of a hit that every process may make. */
static inline struct thread *hit_thread(u64 *key)
{
	struct process *process = this_process();

	hit(process);
	return thread_of(process, key);
}

static inline struct communicator *communicator_at(u64 owner, u64 address)
{
	struct communicator_key key = {};

	key.owner = owner;
	key.address = address;
	return sw_lookup(communicators, &key);
}
