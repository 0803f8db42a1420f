/* What a communicator tells when it is asked, and its end. */

int get_async_error(struct pt_regs *ctx)
{
	struct process *process = this_process();

	if (process)
		__sync_fetch_and_add(&process->asked, 1);
	return open_call(ctx, OP_ASYNC, SW_ARG1(ctx), SW_ARG2(ctx));
}

/* What a communicator tells when it is asked: ready at last, or broken. Watchdogs ask all the time,
 * so only a change counts. */
int leave_get_async_error(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 result = 0, told = 0;
	struct thread *thread = sw_lookup(threads, &key);
	struct communicator_key place = {};
	struct communicator *known;
	struct communicator copy = {};
	struct event event = {};

	if (!thread || !ended(ctx, thread, &result) || result)
		return 0;
	if (sw_read_user(&told, sizeof(told), (void *)thread->out) || told >= RESULTS)
		return 0;
	place.owner = thread->owner;
	place.address = thread->communicator;
	known = sw_lookup(communicators, &place);
	if (!known || known->result == told)
		return 0;
	known->result = told;
	copy = *known;
	if (!known->ready && told != RESULT_IN_PROGRESS) {
		known->ready = 1;
		announce(ctx, &place, &copy, told, NONBLOCKING);
		return 0;
	}
	if (!told || told == RESULT_IN_PROGRESS)
		return 0;
	count_error(place.owner, OP_ASYNC, told);
	event.owner = place.owner;
	event.time = bpf_ktime_get_ns();
	event.thread = key;
	event.communicator = place.address;
	event.id = copy.id;
	event.rank = copy.rank;
	event.nranks = copy.nranks;
	event.kind = EVENT_ASYNC_ERROR;
	event.function = OP_ASYNC;
	event.result = told;
	send(ctx, &event);
	return 0;
}

int get_rank(struct pt_regs *ctx)
{
	return open_call(ctx, OP_ASK, SW_ARG1(ctx), SW_ARG2(ctx));
}

int get_count(struct pt_regs *ctx)
{
	return open_call(ctx, OP_ASK, SW_ARG1(ctx), SW_ARG2(ctx));
}

static inline struct communicator *asked(struct pt_regs *ctx, s32 *value)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 result = 0;
	struct thread *thread = sw_lookup(threads, &key);

	if (!thread || !ended(ctx, thread, &result) || result)
		return 0;
	if (sw_read_user(value, sizeof(*value), (void *)thread->out))
		return 0;
	id_of(thread->owner, thread->communicator);
	return communicator_at(thread->owner, thread->communicator);
}

int leave_get_rank(struct pt_regs *ctx)
{
	s32 value = 0;
	struct communicator *known = asked(ctx, &value);

	if (known)
		known->rank = value;
	return 0;
}

int leave_get_count(struct pt_regs *ctx)
{
	s32 value = 0;
	struct communicator *known = asked(ctx, &value);

	if (known)
		known->nranks = value;
	return 0;
}

static inline int retire(struct pt_regs *ctx, u32 kind, u32 gone)
{
	struct process *process = this_process();
	struct communicator_key place = {};
	struct communicator *known;
	struct event event = {};
	struct clock_key kernels = {};

	hit(process);
	if (!process)
		return 0;
	place.owner = process->born;
	place.address = SW_ARG1(ctx);
	known = sw_lookup(communicators, &place);
	event.rank = UNKNOWN_RANK;
	event.nranks = UNKNOWN_RANK;
	if (known) {
		event.id = known->id;
		event.rank = known->rank;
		event.nranks = known->nranks;
		if (gone)
			sw_delete(communicators, &place);
	}
	if (gone) {
		/* Its kernels end without a word; those of others are caught by the next start. */
		kernels.owner = place.owner;
		kernels.kind = KERNELS;
		sw_delete(running, &kernels);
		u64 now = bpf_ktime_get_ns();
		end(place.owner, KERNELS, now);
		end(place.owner, EXPOSED, now);
	}
	event.time = bpf_ktime_get_ns();
	event.owner = place.owner;
	event.thread = bpf_get_current_pid_tgid();
	event.communicator = place.address;
	event.kind = kind;
	event.function = OP_END;
	send(ctx, &event);
	return 0;
}

#define END(name, kind, gone)                   \
	int name(struct pt_regs *ctx)           \
	{                                       \
		return retire(ctx, kind, gone); \
	}

END(communicator_abort, EVENT_ABORT, 1)
END(communicator_destroy, EVENT_DESTROY, 1)
END(communicator_finalize, EVENT_FINALIZE, 0)
END(communicator_revoke, EVENT_REVOKE, 0)
