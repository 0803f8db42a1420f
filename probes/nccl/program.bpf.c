/*
 * Follows NCCL: what each process asks of it, its communicators, and how long host threads wait for
 * the GPU with a collective in the queue.
 *
 * Why these hooks: the calls are exported C functions of libnccl.so; a collective call only puts work
 * in a stream, so that its own duration is never called communication. What a host thread waits for
 * is seen where it synchronises with the GPU (libcudart, libcuda), and where NCCL's profiler plugin
 * is loaded, what runs on the GPU is seen at the plugin's startEvent and stopEvent.
 *
 * Exits are probed at their instructions, never by a return probe. A call and its exit belong
 * together when the stack pointer is the same: a frame that was left without an exit (an exception,
 * a thread's end) or a call nested in another cannot be mistaken for it.
 *
 * Kernel 5.5 (bpf_probe_read_user) and the uprobe PMU or tracefs. Needs CAP_SYS_ADMIN.
 */

#define OP_UNKNOWN 10
#define OP_GROUP_END 12
#define OP_ASYNC 13
#define OP_ASK 14
#define OP_END 15
#define OP_INIT 32 /* and the number of the function */

#define RESULT_IN_PROGRESS 7
#define RESULTS 16 /* ncclNumResults is 9 in 2.32; what is above is no result, but a stray exit */

#define EVENT_INIT 1
#define EVENT_ASYNC_ERROR 2
#define EVENT_ABORT 3
#define EVENT_DESTROY 4
#define EVENT_FINALIZE 5
#define EVENT_REVOKE 6
#define EVENT_FAILED_CALL 7

#define NONBLOCKING 1
#define UNKNOWN_RANK (-1)

#define WAIT_FUNCTIONS 8

/* Reasons of sw_lost. */
#define LOST_THREADS 0
#define LOST_TOTALS 1
#define LOST_COMMUNICATORS 2
#define LOST_RING 3
#define LOST_SEQUENCE 4

/* Streams of sw_produced. */
#define CALLS 0
#define EVENTS 1
#define SEQUENCE_STREAM 2

/* What runs in an interval. */
#define WAITING 0 /* a thread synchronises, and a collective was put in the queue before */
#define EXPOSED 1 /* that, while a collective's kernel is known to run */
#define KERNELS 2 /* a collective's kernel runs */

/*
 * One per thread that called NCCL and lives, written by that thread alone: one per GPU and a few of
 * autograd and watchdogs, so 8,192 are far above any node. When full, the call is counted as lost.
 */
struct thread {
	u64 owner;
	u64 frame; /* stack pointer at the entry of the open call, 0: none */
	u64 since;
	u64 communicator; /* as given, or the parent */
	u64 out;          /* where the call writes its result in user memory */
	u64 id;
	s32 rank;
	s32 nranks;
	u32 function;
	u32 groups;  /* depth of ncclGroupStart */
	u32 pending; /* initialisations begun in this group */
	u32 wait_op;
	u64 wait_frame; /* as `frame`, of the open synchronise; 0: none that counts */
	u64 wait_since;
	u64 enqueued; /* collectives that this thread called */
	u64 synchronised; /* how many were there when this thread synchronised last */
	u64 abandoned;
	u64 group_frame; /* as `frame`, of ncclGroupEnd, which ncclCommInitAll calls too */
	u64 event_frame; /* as `frame`, of the plugin's open startEvent */
	u64 event_out;
	u32 event_op;
	u32 event_kernel;
};
SW_HASH(threads, u64, struct thread, 8192);

/*
 * One per process that called NCCL. `born` is the time of its first call and its name everywhere
 * below, so that a pid used again is another process. Each GPU of a node has a few processes at most.
 */
struct process {
	u64 born;
	u64 hits; /* of all programs: the weight of everything below */
	u64 enqueued;
	u64 kernels; /* kernel events of a profiler plugin */
	u64 plugin_calls;
	u64 asked; /* ncclCommGetAsyncError */
	u64 synchronised[WAIT_FUNCTIONS]; /* calls that wait for the GPU, in the order of functions.py */
	u32 tgid;
	u32 op; /* the last collective */
	u32 kernel_op;
	u32 zero;
};
SW_HASH(processes, u32, struct process, 4096);
/* Those that ended since the reader looked last: half a second of them. */
SW_HASH(ended_processes, u64, struct process, 2048);

/*
 * Calls and bytes by operation, size class and communicator. A process with 16 communicators, 6
 * operations and 5 sizes each has 480; a node with 8 of them 3,840.
 */
struct total_key {
	u64 owner;
	u64 id;
	u32 op;
	u32 size_class;
};
struct total {
	u64 calls;
	u64 bytes;
};
SW_HASH(totals, struct total_key, struct total, 32768);

/* Results that are neither success nor "in progress": 10 a call at most. */
struct error_key {
	u64 owner;
	u32 op;
	u32 result;
};
SW_HASH(errors, struct error_key, u64, 8192);

/* Communicators by address. Mixture-of-experts jobs have some dozens a process. */
struct communicator_key {
	u64 owner;
	u64 address;
};
struct communicator {
	u64 id; /* 0: it was there before the probe */
	u64 since; /* begun, while it is not ready */
	s32 rank;
	s32 nranks;
	u32 children;
	u32 result; /* the last that ncclCommGetAsyncError told */
	u32 function;
	u32 ready;
};
SW_HASH(communicators, struct communicator_key, struct communicator, 16384);

/* Initialisations that ncclGroupEnd will carry out: one a GPU of a thread, 16 at most. */
struct pending_key {
	u64 thread;
	u64 slot;
};
struct pending {
	u64 since;
	u64 out;
	u64 id;
	s32 rank;
	s32 nranks;
	u32 function;
	u32 zero;
};
#define MAX_PENDING 16
SW_HASH(pending, struct pending_key, struct pending, 4096);

/* What a profiler plugin's handles stand for. Plugins take them from pools and use them again, so that
 * the least recently used is an event long over. */
struct handle_key {
	u64 owner;
	u64 handle;
};
struct handle {
	u32 op;
	u32 kernel;
};
SW_LRU_HASH(handles, struct handle_key, struct handle, 16384);

/* Threads in a synchronise that counts, kernels in flight; by process and what runs. */
struct clock_key {
	u64 owner;
	u64 kind;
};
SW_HASH(running, struct clock_key, s64, 8192);

/*
 * Intervals that are open. Whoever inserts begins one, whoever deletes ends it, so that threads
 * that race cannot count one twice.
 */
struct interval {
	u64 since;
	u64 op;
};
SW_HASH(intervals, struct clock_key, struct interval, 8192);

/* The length of closed intervals, and how many, by operation. */
struct spent_key {
	u64 owner;
	u32 kind;
	u32 op;
};
struct spent {
	u64 ns;
	u64 count;
};
SW_HASH(spent, struct spent_key, struct spent, 16384);

/* A few events per process and communicator; a start of 64 processes with 10 communicators is 640
 * records of 80 B with their heads, and 16 pages hold 800 between two looks of half a second. */
struct event {
	u64 time;
	u64 owner;
	u64 thread;
	u64 communicator;
	u64 id;
	u64 since;
	s32 rank;
	s32 nranks;
	u32 kind;
	u32 function;
	u32 result;
	u32 flags;
};
SW_EVENTS(events, EVENT_PAGES);
SW_COUNTERS(3, 5);

#ifdef SEQUENCE
/* One record a call, to find the period of a step; 40 B each. */
struct call {
	u64 time;
	u64 communicator;
	u64 thread;
	u64 count;
	u32 op;
	u32 dtype;
};
SW_EVENTS(sequence, SEQUENCE_PAGES);
#endif

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

/* ---- shared ---- */

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

static inline u64 mixed(u64 hash, u64 value)
{
	hash ^= value;
	hash *= 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

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

/* ---- clocks ---- */

static inline void spend(struct clock_key *clock, u64 op, u64 ns)
{
	struct spent_key key = {};
	struct spent zero = {};
	struct spent *total;

	key.owner = clock->owner;
	key.kind = clock->kind;
	key.op = op;
	sw_insert(spent, &key, &zero);
	total = sw_lookup(spent, &key);
	if (!total) {
		sw_count(sw_lost, LOST_TOTALS);
		return;
	}
	__sync_fetch_and_add(&total->ns, ns);
	__sync_fetch_and_add(&total->count, 1);
}

/* How many run; `change` is 1 or -1. */
static inline s64 step_running(u64 owner, u32 kind, s64 change)
{
	struct clock_key key = {};
	s64 zero = 0;
	s64 *count;

	key.owner = owner;
	key.kind = kind;
	if (change > 0)
		sw_insert(running, &key, &zero);
	count = sw_lookup(running, &key);
	if (!count)
		return 0;
	__sync_fetch_and_add(count, change);
	/* A start that was not seen. */
	if (*count < 0)
		*count = 0;
	return *count;
}

static inline s64 read_running(u64 owner, u32 kind)
{
	struct clock_key key = {};
	s64 *count;

	key.owner = owner;
	key.kind = kind;
	count = sw_lookup(running, &key);
	return count ? *count : 0;
}

static inline void begin(u64 owner, u32 kind, u64 op, u64 now)
{
	struct clock_key key = {};
	struct interval fresh = {};

	key.owner = owner;
	key.kind = kind;
	fresh.since = now;
	fresh.op = op;
	/* Open already: fine. */
	sw_insert(intervals, &key, &fresh);
}

static inline void end(u64 owner, u32 kind, u64 now)
{
	struct clock_key key = {};
	struct interval *open;
	u64 since, op;

	key.owner = owner;
	key.kind = kind;
	open = sw_lookup(intervals, &key);
	if (!open)
		return;
	since = open->since;
	op = open->op;
	if (sw_delete(intervals, &key))
		return;
	if (now > since)
		spend(&key, op, now - since);
}

/* ---- calls ---- */

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
	struct communicator_key place = {};
	struct communicator *known;
	struct event event = {};

	count_error(thread->owner, op, result);
	event.owner = place.owner = thread->owner;
	event.rank = event.nranks = UNKNOWN_RANK;
	place.address = thread->communicator;
	known = sw_lookup(communicators, &place);
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

/* Arguments: nccl.h. The number of an operation is its place in probes/nccl/abi.py. */
int all_reduce(struct pt_regs *ctx)
{
	return call(ctx, 0, SW_ARG3(ctx), SW_ARG4(ctx), SW_ARG6(ctx));
}

int all_gather(struct pt_regs *ctx)
{
	return call(ctx, 1, SW_ARG3(ctx), SW_ARG4(ctx), SW_ARG5(ctx));
}

int reduce_scatter(struct pt_regs *ctx)
{
	return call(ctx, 2, SW_ARG3(ctx), SW_ARG4(ctx), SW_ARG6(ctx));
}

int broadcast(struct pt_regs *ctx)
{
	return call(ctx, 3, SW_ARG3(ctx), SW_ARG4(ctx), SW_ARG6(ctx));
}

int reduce(struct pt_regs *ctx)
{
	u64 communicator = 0;

	/* The seventh argument: on the stack of x86-64, in x6 on arm64. */
#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
	communicator = ctx->regs[6];
#else
	SW_STACK_ARG(&communicator, ctx, 0);
#endif
	return call(ctx, 4, SW_ARG3(ctx), SW_ARG4(ctx), communicator);
}

int all_to_all(struct pt_regs *ctx)
{
	return call(ctx, 5, SW_ARG3(ctx), SW_ARG4(ctx), SW_ARG5(ctx));
}

int gather(struct pt_regs *ctx)
{
	return call(ctx, 6, SW_ARG3(ctx), SW_ARG4(ctx), SW_ARG6(ctx));
}

int scatter(struct pt_regs *ctx)
{
	return call(ctx, 7, SW_ARG3(ctx), SW_ARG4(ctx), SW_ARG6(ctx));
}

int send_call(struct pt_regs *ctx)
{
	return call(ctx, 8, SW_ARG2(ctx), SW_ARG3(ctx), SW_ARG5(ctx));
}

int receive_call(struct pt_regs *ctx)
{
	return call(ctx, 9, SW_ARG2(ctx), SW_ARG3(ctx), SW_ARG5(ctx));
}

/* ---- communicators ---- */

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
	struct communicator_key key = {};
	struct communicator *known;

	if (!process)
		return 0;
	key.owner = process->born;
	key.address = parent;
	known = sw_lookup(communicators, &key);
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

int leave_init(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 result = 0;
	struct thread *thread = sw_lookup(threads, &key);
	struct pending begun = {};

	if (!thread || !ended(ctx, thread, &result))
		return 0;
	begun.since = thread->since;
	begun.out = thread->out;
	begun.id = thread->id;
	begun.rank = thread->rank;
	begun.nranks = thread->nranks;
	begun.function = thread->function;
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
	struct thread *thread = sw_lookup(threads, &key);
	struct pending begun = {};

	if (!thread || !ended(ctx, thread, &result))
		return 0;
	begun.since = thread->since;
	begun.out = thread->out;
	begun.id = thread->id;
	begun.nranks = thread->nranks;
	begun.function = thread->function;
	finish_all(ctx, thread->owner, &begun, result);
	return 0;
}

int group_start(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	struct thread *thread;

	thread = hit_thread(&key);
	if (thread)
		thread->groups += 1;
	return 0;
}

int group_end(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	struct thread *thread = hit_thread(&key);

	if (thread)
		thread->group_frame = SW_STACK_POINTER(ctx);
	return 0;
}

int leave_group_end(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 result = SW_RETVAL(ctx);
	struct thread *thread = sw_lookup(threads, &key);
	struct pending_key slot = {};

	if (!thread || !thread->group_frame || thread->group_frame != SW_STACK_POINTER(ctx))
		return 0;
	thread->group_frame = 0;
	if (result >= RESULTS)
		return 0;
	if (thread->groups)
		thread->groups -= 1;
	if (thread->groups)
		return 0;
	slot.thread = key;
	for (int i = 0; i < MAX_PENDING; i++) {
		if (i >= thread->pending)
			break;
		slot.slot = i;
		struct pending *begun = sw_lookup(pending, &slot);
		if (!begun)
			break;
		struct pending copy = *begun;
		sw_delete(pending, &slot);
		finish(ctx, thread->owner, &copy, result);
	}
	if (result && result != RESULT_IN_PROGRESS && !thread->pending)
		failed(ctx, key, thread, OP_GROUP_END, result);
	thread->pending = 0;
	return 0;
}

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
	struct communicator_key place = {};

	if (!thread || !ended(ctx, thread, &result) || result)
		return 0;
	if (sw_read_user(value, sizeof(*value), (void *)thread->out))
		return 0;
	place.owner = thread->owner;
	place.address = thread->communicator;
	id_of(place.owner, place.address);
	return sw_lookup(communicators, &place);
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

int communicator_abort(struct pt_regs *ctx)
{
	return retire(ctx, EVENT_ABORT, 1);
}

int communicator_destroy(struct pt_regs *ctx)
{
	return retire(ctx, EVENT_DESTROY, 1);
}

int communicator_finalize(struct pt_regs *ctx)
{
	return retire(ctx, EVENT_FINALIZE, 0);
}

int communicator_revoke(struct pt_regs *ctx)
{
	return retire(ctx, EVENT_REVOKE, 0);
}

/* ---- waits ---- */

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

int enter_stream_synchronize(struct pt_regs *ctx)
{
	return enter_wait(ctx, 0);
}

int enter_event_synchronize(struct pt_regs *ctx)
{
	return enter_wait(ctx, 1);
}

int enter_device_synchronize(struct pt_regs *ctx)
{
	return enter_wait(ctx, 2);
}

int enter_copy(struct pt_regs *ctx)
{
	return enter_wait(ctx, 3);
}

int enter_driver_stream_synchronize(struct pt_regs *ctx)
{
	return enter_wait(ctx, 4);
}

int enter_driver_event_synchronize(struct pt_regs *ctx)
{
	return enter_wait(ctx, 5);
}

int enter_driver_context_synchronize(struct pt_regs *ctx)
{
	return enter_wait(ctx, 6);
}

int enter_driver_copy(struct pt_regs *ctx)
{
	return enter_wait(ctx, 7);
}

int leave_wait(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	struct thread *thread = sw_lookup(threads, &key);

	if (thread && thread->wait_frame && thread->wait_frame == SW_STACK_POINTER(ctx))
		stop_waiting(thread, bpf_ktime_get_ns());
	return 0;
}

/* ---- the profiler plugin ---- */

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

int start_event_v3(struct pt_regs *ctx)
{
	return start_event(ctx, 0xff, 48);
}

int start_event_v4(struct pt_regs *ctx)
{
	return start_event(ctx, 0xff, 32);
}

int start_event_v5(struct pt_regs *ctx)
{
	return start_event(ctx, ~0ULL, 32);
}

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

/* Where exits cannot be found: an entry alone says nothing of a wait or of a new communicator. */
int ignore(struct pt_regs *ctx)
{
	return 0;
}

/* On the raw tracepoint sched_process_exit: a process ends with its first thread, and whoever gets its
 * pid next begins anew. Every other thread's end costs a comparison, every other process's a lookup. */
int on_exit(void *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 tgid = key >> 32;
	struct process *process;
	struct process copy;
	u64 born;

	if ((u32)key != tgid)
		return 0;
	process = sw_lookup(processes, &tgid);
	if (!process)
		return 0;
	copy = *process;
	born = copy.born;
	if (sw_update(ended_processes, &born, &copy))
		sw_count(sw_lost, LOST_THREADS);
	sw_delete(processes, &tgid);
	return 0;
}
