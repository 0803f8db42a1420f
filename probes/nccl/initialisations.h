/* Communicators being made. */

/*
 * A struct of 128 bytes as third argument: by value on the stack of x86-64, where it uses up no
 * register, and by reference on arm64, where it uses up x2. So what follows it is in rdx or w3.
 */
#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
#define UNIQUE_ID(ctx) SW_ARG3(ctx)
#define AFTER_UNIQUE_ID(ctx) SW_ARG4(ctx)
#else
#define UNIQUE_ID(ctx) (SW_STACK_POINTER(ctx) + 8)
#define AFTER_UNIQUE_ID(ctx) SW_ARG3(ctx)
#endif

static inline u64 mixed(u64 hash, u64 value)
{
	hash ^= value;
	hash *= 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

static inline int open_call(struct pt_regs *ctx, u32 function, u64 communicator, u64 out)
{
	u64 key = bpf_get_current_pid_tgid();
	struct thread *thread;

	thread = hit_thread(&key);
	if (!thread)
		return 0;
	thread->frame = SW_STACK_POINTER(ctx);
	thread->since = bpf_ktime_get_ns();
	thread->function = function;
	thread->communicator = communicator;
	thread->out = out;
	thread->id = 0;
	thread->rank = UNKNOWN_RANK;
	thread->nranks = UNKNOWN_RANK;
	return 0;
}

/* An ncclUniqueId, 128 bytes that all ranks of a communicator share, as one number. */
static inline u64 unique_id(u64 address)
{
	u64 words[16] = {};
	u64 hash = 0;

	if (!address || sw_read_user(words, sizeof(words), (void *)address))
		return 0;
#pragma unroll
	for (int i = 0; i < 16; i++)
		hash = mixed(hash, words[i]);
	return hash ? hash : 1;
}

static inline int open_init(struct pt_regs *ctx, u32 function, u64 out, s32 nranks, s32 rank, u64 id)
{
	u64 key = bpf_get_current_pid_tgid();
	struct thread *thread;

	open_call(ctx, OP_INIT + function, 0, out);
	thread = sw_lookup(threads, &key);
	if (!thread || thread->frame != SW_STACK_POINTER(ctx))
		return 0;
	thread->nranks = nranks;
	thread->rank = rank;
	thread->id = id;
	return 0;
}

/* Initialisations are numbered from 0 in the order of probes/nccl/abi.py. */
int init_rank(struct pt_regs *ctx)
{
	u64 id = unique_id(UNIQUE_ID(ctx));

	return open_init(ctx, 0, SW_ARG1(ctx), SW_ARG2(ctx), AFTER_UNIQUE_ID(ctx), id);
}

int init_rank_config(struct pt_regs *ctx)
{
	u64 id = unique_id(UNIQUE_ID(ctx));

	return open_init(ctx, 1, SW_ARG1(ctx), SW_ARG2(ctx), AFTER_UNIQUE_ID(ctx), id);
}

int init_rank_scalable(struct pt_regs *ctx)
{
	u64 id = unique_id(SW_ARG5(ctx));

	return open_init(ctx, 2, SW_ARG1(ctx), SW_ARG2(ctx), SW_ARG3(ctx), id);
}

int init_all(struct pt_regs *ctx)
{
	u64 id = mixed(bpf_get_current_pid_tgid(), bpf_ktime_get_ns());

	return open_init(ctx, 3, SW_ARG1(ctx), SW_ARG2(ctx), UNKNOWN_RANK, id);
}

/*
 * The members of a communicator make its children in the same order, so that parent, number and
 * colour name a child alike on all ranks.
 */
static inline u64 child_id(u64 parent, u64 colour, s32 *nranks)
{
	struct process *process = this_process();
	struct communicator *known;

	if (!process)
		return 0;
	known = communicator_at(process->born, parent);
	if (!known || !known->id)
		return 0;
	known->children += 1;
	*nranks = known->nranks;
	return mixed(mixed(known->id, known->children), colour);
}

int split(struct pt_regs *ctx)
{
	u32 colour = SW_ARG2(ctx);
	s32 nranks = UNKNOWN_RANK;
	u64 id = child_id(SW_ARG1(ctx), colour, &nranks);

	return open_init(ctx, 4, SW_ARG4(ctx), UNKNOWN_RANK, UNKNOWN_RANK, id);
}

int shrink(struct pt_regs *ctx)
{
	s32 excluded = SW_ARG3(ctx);
	s32 nranks = UNKNOWN_RANK;
	u64 id = child_id(SW_ARG1(ctx), 0, &nranks);

	if (nranks > excluded)
		nranks -= excluded;
	/* Those above an excluded rank move down; which these are is not read. */
	return open_init(ctx, 5, SW_ARG4(ctx), nranks, UNKNOWN_RANK, id);
}

int grow(struct pt_regs *ctx)
{
	s32 nranks = UNKNOWN_RANK;
	u64 id = unique_id(SW_ARG3(ctx));

	/* Only new members and the root are given one. */
	if (!id)
		id = child_id(SW_ARG1(ctx), 0, &nranks);
	return open_init(ctx, 6, SW_ARG5(ctx), SW_ARG2(ctx), SW_ARG4(ctx), id);
}

static inline void announce(struct pt_regs *ctx, struct communicator_key *key,
			    struct communicator *made, u32 result, u32 flags)
{
	struct event event = {};

	event.time = bpf_ktime_get_ns();
	event.owner = key->owner;
	event.thread = bpf_get_current_pid_tgid();
	event.communicator = key->address;
	event.id = made->id;
	event.since = made->since;
	event.rank = made->rank;
	event.nranks = made->nranks;
	event.kind = EVENT_INIT;
	event.function = made->function;
	event.result = result;
	event.flags = flags;
	if (result)
		count_error(key->owner, made->function, result);
	send(ctx, &event);
}

/* An initialisation has returned: the communicator is at `out`, unless it failed. */
static inline void finish(struct pt_regs *ctx, u64 owner, struct pending *begun, u32 result)
{
	struct communicator_key key = {};
	struct communicator made = {};

	key.owner = owner;
	made.id = begun->id;
	made.since = begun->since;
	made.rank = begun->rank;
	made.nranks = begun->nranks;
	made.function = begun->function;
	made.ready = result != RESULT_IN_PROGRESS;
	made.result = result;
	if (!result || result == RESULT_IN_PROGRESS) {
		if (sw_read_user(&key.address, sizeof(key.address), (void *)begun->out))
			key.address = 0;
		/* A rank that ncclCommSplit gave no colour has none. */
		if (key.address && sw_update(communicators, &key, &made))
			sw_count(sw_lost, LOST_COMMUNICATORS);
	}
	if (made.ready)
		announce(ctx, &key, &made, result, 0);
}

/* One of the communicators that ncclCommInitAll has made; false: there are no more. */
static inline bool finish_one(struct communicator_key *key, struct communicator *made, u64 out, int i)
{
	if (i >= made->nranks)
		return false;
	made->rank = i;
	if (sw_read_user(&key->address, sizeof(key->address), (void *)(out + i * sizeof(key->address))))
		return false;
	if (key->address && sw_update(communicators, key, made))
		sw_count(sw_lost, LOST_COMMUNICATORS);
	return true;
}

static inline void finish_all(struct pt_regs *ctx, u64 owner, struct pending *begun, u32 result)
{
	struct communicator_key key = {};
	struct communicator made = {};

	key.owner = owner;
	made.id = begun->id;
	made.since = begun->since;
	made.nranks = begun->nranks;
	made.function = begun->function;
	made.ready = 1;
	/* Written out: the compiler does not unroll it, and the verifier of 5.10 fails over the loop. */
#define FINISH_ONE(i) finish_one(&key, &made, begun->out, i)
#define FINISH_FOUR(i) \
	(FINISH_ONE(i) && FINISH_ONE(i + 1) && FINISH_ONE(i + 2) && FINISH_ONE(i + 3))
	_Static_assert(MAX_PENDING == 16, "as many as are written out");
	if (!result && FINISH_FOUR(0) && FINISH_FOUR(4) && FINISH_FOUR(8))
		FINISH_FOUR(12);
	made.rank = UNKNOWN_RANK;
	announce(ctx, &key, &made, result, 0);
}

static inline void postpone(u64 key, struct thread *thread, struct pending *begun)
{
	struct pending_key slot = {};

	if (thread->pending >= MAX_PENDING) {
		sw_count(sw_lost, LOST_COMMUNICATORS);
		return;
	}
	slot.thread = key;
	slot.slot = thread->pending;
	thread->pending += 1;
	if (sw_update(pending, &slot, begun))
		sw_count(sw_lost, LOST_COMMUNICATORS);
}

/* The thread whose initialisation this exit ends, and what it asked for; 0: it ends none. */
static inline struct thread *begun_by(struct pt_regs *ctx, u64 *key, struct pending *begun, u32 *result)
{
	struct thread *thread = sw_lookup(threads, key);

	if (!thread || !ended(ctx, thread, result))
		return 0;
	begun->since = thread->since;
	begun->out = thread->out;
	begun->id = thread->id;
	begun->rank = thread->rank;
	begun->nranks = thread->nranks;
	begun->function = thread->function;
	return thread;
}

int leave_init(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 result = 0;
	struct pending begun = {};
	struct thread *thread = begun_by(ctx, &key, &begun, &result);

	if (!thread)
		return 0;
	/* In a group only the request was taken; ncclGroupEnd does the work. */
	if (thread->groups && !result)
		postpone(key, thread, &begun);
	else
		finish(ctx, thread->owner, &begun, result);
	return 0;
}

int leave_init_all(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 result = 0;
	struct pending begun = {};
	struct thread *thread = begun_by(ctx, &key, &begun, &result);

	if (thread)
		finish_all(ctx, thread->owner, &begun, result);
	return 0;
}
