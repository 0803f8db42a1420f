/* The maps, what lies in them, and what the counters of a program stand for. */

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
