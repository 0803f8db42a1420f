/* What a profiler plugin of NCCL is told: kernels of collectives that run. */

/* Event types of ncclProfilerEventDescr_t.type (NCCL, plugin/nccl_profiler.h). */
#define PROFILE_COLLECTIVE 2
#define PROFILE_POINT_TO_POINT 4
#define PROFILE_KERNEL 64

static inline u32 op_named(u64 address)
{
	char name[8] = {};

	if (sw_read_user(name, sizeof(name), (void *)address))
		return OP_UNKNOWN;
	if (name[0] == 'A')
		return name[3] == 'R' ? 0 : name[3] == 'G' ? 1 : 5;
	if (name[0] == 'R')
		return name[2] == 'c' ? 9 : name[6] == 'S' ? 2 : 4;
	if (name[0] == 'B')
		return 3;
	if (name[0] == 'G')
		return 6;
	if (name[0] == 'S')
		return name[1] == 'c' ? 7 : 8;
	return OP_UNKNOWN;
}

static inline u32 op_of_handle(u64 owner, u64 handle)
{
	struct handle_key key = {};
	struct handle *known;

	key.owner = owner;
	key.handle = handle;
	known = sw_lookup(handles, &key);
	return known ? known->op : OP_UNKNOWN;
}

static inline void start_kernel(struct process *process, u32 op)
{
	u64 owner = process->born, now = bpf_ktime_get_ns();

	__sync_fetch_and_add(&process->kernels, 1);
	process->kernel_op = op;
	step_running(owner, KERNELS, 1);
	begin(owner, KERNELS, op, now);
	if (read_running(owner, WAITING) > 0)
		begin(owner, EXPOSED, op, now);
}

static inline void stop_kernel(u64 owner)
{
	u64 now = bpf_ktime_get_ns();

	if (step_running(owner, KERNELS, -1) > 0)
		return;
	end(owner, KERNELS, now);
	end(owner, EXPOSED, now);
	if (read_running(owner, KERNELS) > 0)
		begin(owner, KERNELS, OP_UNKNOWN, now);
}

/*
 * startEvent(context, void **handle, descriptor). The descriptor begins with its type (a byte up to
 * v4, eight from v5 on) and, at 8, the parent's handle; a collective's name is at `name`, a
 * point-to-point call's eight bytes before it.
 */
static inline int start_event(struct pt_regs *ctx, u64 types, u64 name)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 tgid = key >> 32;
	struct process *process = sw_lookup(processes, &tgid);
	struct thread *thread;
	u64 words[2] = {}, text = 0;
	u32 op = OP_UNKNOWN;

	if (!process)
		return 0;
	hit(process);
	__sync_fetch_and_add(&process->plugin_calls, 1);
	if (sw_read_user(words, sizeof(words), (void *)SW_ARG3(ctx)))
		return 0;
	words[0] &= types;
	if (words[0] == PROFILE_POINT_TO_POINT)
		name -= 8;
	else if (words[0] != PROFILE_COLLECTIVE && words[0] != PROFILE_KERNEL)
		return 0;
	thread = thread_of(process, &key);
	/* A table that is made of another's functions: the outer one counts. */
	if (!thread || (thread->event_frame && SW_STACK_POINTER(ctx) < thread->event_frame))
		return 0;
	if (words[0] == PROFILE_KERNEL)
		op = op_of_handle(process->born, words[1]);
	else if (!sw_read_user(&text, sizeof(text), (void *)(SW_ARG3(ctx) + name)))
		op = op_named(text);
	thread->event_frame = SW_STACK_POINTER(ctx);
	thread->event_out = SW_ARG2(ctx);
	thread->event_op = op;
	thread->event_kernel = words[0] == PROFILE_KERNEL;
	if (thread->event_kernel)
		start_kernel(process, op);
	return 0;
}

#define START_EVENT(name, types, text)                  \
	int name(struct pt_regs *ctx)                   \
	{                                               \
		return start_event(ctx, types, text);   \
	}

START_EVENT(start_event_v3, 0xff, 48)
START_EVENT(start_event_v4, 0xff, 32)
START_EVENT(start_event_v5, ~0ULL, 32)

int leave_start_event(struct pt_regs *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = sw_lookup(threads, &id);
	struct handle_key key = {};
	struct handle fresh = {};

	if (!thread || !thread->event_frame || thread->event_frame != SW_STACK_POINTER(ctx))
		return 0;
	thread->event_frame = 0;
	key.owner = thread->owner;
	if (sw_read_user(&key.handle, sizeof(key.handle), (void *)thread->event_out))
		key.handle = 0;
	fresh.op = thread->event_op;
	fresh.kernel = thread->event_kernel;
	/* Without a handle NCCL will not tell of its end. */
	if (key.handle)
		sw_update(handles, &key, &fresh);
	else if (fresh.kernel)
		stop_kernel(thread->owner);
	return 0;
}

int stop_event(struct pt_regs *ctx)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *process = sw_lookup(processes, &tgid);
	struct handle_key key = {};
	struct handle *known;

	if (!process)
		return 0;
	hit(process);
	__sync_fetch_and_add(&process->plugin_calls, 1);
	key.owner = process->born;
	key.handle = SW_ARG1(ctx);
	known = sw_lookup(handles, &key);
	if (!known || !known->kernel)
		return 0;
	/* Whoever deletes it ends it: an outer stopEvent may call an inner one. */
	if (sw_delete(handles, &key))
		return 0;
	stop_kernel(key.owner);
	return 0;
}
