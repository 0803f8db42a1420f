/* Threads that wait for the GPU after a collective was put in the queue. */

static inline void stop_waiting(struct thread *thread, u64 now)
{
	u64 owner = thread->owner;

	thread->wait_frame = 0;
	if (step_running(owner, WAITING, -1) > 0)
		return;
	end(owner, WAITING, now);
	end(owner, EXPOSED, now);
	/* Another thread came in between. */
	if (read_running(owner, WAITING) > 0)
		begin(owner, WAITING, thread->wait_op, now);
}

static inline int enter_wait(struct pt_regs *ctx, u32 place)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 tgid = key >> 32;
	struct process *process = sw_lookup(processes, &tgid);
	struct thread *thread;
	u64 enqueued, owner, now;

	/* Most processes that use CUDA never call NCCL. */
	if (!process)
		return 0;
	hit(process);
	__sync_fetch_and_add(&process->synchronised[place], 1);
	thread = thread_of(process, &key);
	if (!thread)
		return 0;
	owner = process->born;
	now = bpf_ktime_get_ns();
	if (thread->wait_frame) {
		/* libcudart calls libcuda: the outer one counts. */
		if (SW_STACK_POINTER(ctx) < thread->wait_frame)
			return 0;
		thread->abandoned += 1;
		stop_waiting(thread, now);
	}
#ifdef BY_THREAD
	enqueued = thread->enqueued;
#else
	enqueued = process->enqueued;
#endif
	if (enqueued == thread->synchronised)
		return 0;
	thread->synchronised = enqueued;
	thread->wait_frame = SW_STACK_POINTER(ctx);
	thread->wait_since = now;
	thread->wait_op = process->op;
	step_running(owner, WAITING, 1);
	begin(owner, WAITING, process->op, now);
	if (read_running(owner, KERNELS) > 0)
		begin(owner, EXPOSED, process->kernel_op, now);
	return 0;
}

/* In the order of WAITS of probes/nccl/functions.py. */
#define WAIT(name, place)                       \
	int name(struct pt_regs *ctx)           \
	{                                       \
		return enter_wait(ctx, place);  \
	}

WAIT(enter_stream_synchronize, 0)
WAIT(enter_event_synchronize, 1)
WAIT(enter_device_synchronize, 2)
WAIT(enter_copy, 3)
WAIT(enter_driver_stream_synchronize, 4)
WAIT(enter_driver_event_synchronize, 5)
WAIT(enter_driver_context_synchronize, 6)
WAIT(enter_driver_copy, 7)

int leave_wait(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	struct thread *thread = sw_lookup(threads, &key);

	if (thread && thread->wait_frame && thread->wait_frame == SW_STACK_POINTER(ctx))
		stop_waiting(thread, bpf_ktime_get_ns());
	return 0;
}
