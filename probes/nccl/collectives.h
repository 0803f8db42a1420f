/* Calls that put work into a stream: how many, how large, in which communicator. */

/* The bytes of one element by ncclDataType_t (nccl.h, 2.32); 0 where it is not known. */
static inline u64 element_bytes(u32 dtype)
{
	if (dtype <= 1 || dtype == 10 || dtype == 11)
		return 1;
	if (dtype == 6 || dtype == 9)
		return 2;
	if (dtype == 2 || dtype == 3 || dtype == 7)
		return 4;
	if (dtype == 4 || dtype == 5 || dtype == 8)
		return 8;
	return 0;
}

/* 0: up to 256 B, 1: up to 1 KiB, ... in powers of 4; 13: above 4 GiB. */
static inline u16 class_of(u64 bytes)
{
	u64 limit = 256;
	u16 size_class = 0;

#pragma unroll
	for (int i = 0; i < 13; i++) {
		if (bytes > limit)
			size_class += 1;
		limit <<= 2;
	}
	return size_class;
}

static inline u64 id_of(u64 owner, u64 address)
{
	struct communicator_key key = {};
	struct communicator fresh = {};
	struct communicator *known;

	key.owner = owner;
	key.address = address;
	known = sw_lookup(communicators, &key);
	if (known)
		return known->id;
	/* Older than the probe: it is counted as open, its rank may be asked for later. */
	fresh.rank = UNKNOWN_RANK;
	fresh.nranks = UNKNOWN_RANK;
	fresh.ready = 1;
	if (address && sw_insert(communicators, &key, &fresh))
		sw_count(sw_lost, LOST_COMMUNICATORS);
	return 0;
}

static inline void tally(u64 owner, u32 op, u64 bytes, u64 id)
{
	struct total_key key = {};
	struct total zero = {};
	struct total *total;

	key.owner = owner;
	key.op = op;
	key.size_class = class_of(bytes);
	key.id = id;
	sw_insert(totals, &key, &zero);
	total = sw_lookup(totals, &key);
	if (!total) {
		sw_count(sw_lost, LOST_TOTALS);
		return;
	}
	__sync_fetch_and_add(&total->calls, 1);
	__sync_fetch_and_add(&total->bytes, bytes);
}

static inline int call(struct pt_regs *ctx, u32 op, u64 count, u32 dtype, u64 communicator)
{
	u64 key = bpf_get_current_pid_tgid();
	struct process *process = this_process();
	struct thread *thread;

	hit(process);
	thread = thread_of(process, &key);
	if (!process || !thread)
		return 0;
	u64 id = id_of(process->born, communicator);
	tally(process->born, op, count * element_bytes(dtype), id);
	process->op = op;
	__sync_fetch_and_add(&process->enqueued, 1);
	thread->enqueued += 1;
	thread->frame = SW_STACK_POINTER(ctx);
	thread->function = op;
	thread->communicator = communicator;
#ifdef SEQUENCE
	struct call record = {};
	record.time = bpf_ktime_get_ns();
	record.thread = key;
	record.communicator = id ? id : communicator;
	record.count = count;
	record.op = op;
	record.dtype = dtype;
	sw_count(sw_produced, SEQUENCE_STREAM);
	if (sw_output(sequence, ctx, &record))
		sw_count(sw_lost, LOST_SEQUENCE);
#endif
	return 0;
}

int leave_call(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 result = 0;
	struct thread *thread = sw_lookup(threads, &key);

	if (!thread || !ended(ctx, thread, &result))
		return 0;
	if (result && result != RESULT_IN_PROGRESS)
		failed(ctx, key, thread, thread->function, result);
	return 0;
}

/* `number`: the operation's place in probes/nccl/abi.py. The others: which arguments of the function
 * they are (nccl.h). */
#define CALL(name, number, count, dtype, communicator)                                  \
	int name(struct pt_regs *ctx)                                                   \
	{                                                                               \
		return call(ctx, number, SW_ARG##count(ctx), SW_ARG##dtype(ctx),        \
			    SW_ARG##communicator(ctx));                                 \
	}

CALL(all_reduce, 0, 3, 4, 6)
CALL(all_gather, 1, 3, 4, 5)
CALL(reduce_scatter, 2, 3, 4, 6)
CALL(broadcast, 3, 3, 4, 6)
CALL(all_to_all, 5, 3, 4, 5)
CALL(gather, 6, 3, 4, 6)
CALL(scatter, 7, 3, 4, 6)
CALL(send_call, 8, 2, 3, 5)
CALL(receive_call, 9, 2, 3, 5)

/* ncclReduce, which is 4: its communicator is the seventh argument, on the stack of x86-64, in x6 on
 * arm64. */
int reduce(struct pt_regs *ctx)
{
	u64 communicator = 0;

#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
	communicator = ctx->regs[6];
#else
	SW_STACK_ARG(&communicator, ctx, 0);
#endif
	return call(ctx, 4, SW_ARG3(ctx), SW_ARG4(ctx), communicator);
}

