/* Events of the ring, failures, and the exit that ends a thread's open call. */

static inline void send(struct pt_regs *ctx, struct event *event)
{
	sw_count(sw_produced, EVENTS);
	if (sw_output(events, ctx, event))
		sw_count(sw_lost, LOST_RING);
}

static inline void count_error(u64 owner, u32 op, u32 result)
{
	struct error_key key = {};
	u64 zero = 0;
	u64 *counter;

	key.owner = owner;
	key.op = op;
	key.result = result;
	sw_insert(errors, &key, &zero);
	counter = sw_lookup(errors, &key);
	if (counter)
		__sync_fetch_and_add(counter, 1);
	else
		sw_count(sw_lost, LOST_TOTALS);
}

/* Whether this exit ends the thread's open call; its result then. */
static inline bool ended(struct pt_regs *ctx, struct thread *thread, u32 *result)
{
	if (!thread->frame || thread->frame != SW_STACK_POINTER(ctx))
		return 0;
	thread->frame = 0;
	*result = SW_RETVAL(ctx);
	return *result < RESULTS;
}

static inline void failed(struct pt_regs *ctx, u64 key, struct thread *thread, u32 op, u32 result)
{
	struct communicator *known = communicator_at(thread->owner, thread->communicator);
	struct event event = {};

	count_error(thread->owner, op, result);
	event.owner = thread->owner;
	event.rank = event.nranks = UNKNOWN_RANK;
	if (known) {
		event.id = known->id;
		event.rank = known->rank;
		event.nranks = known->nranks;
	}
	event.time = bpf_ktime_get_ns();
	event.thread = key;
	event.communicator = thread->communicator;
	event.kind = EVENT_FAILED_CALL;
	event.function = op;
	event.result = result;
	send(ctx, &event);
}
