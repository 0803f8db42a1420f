/*
 * Counting and timing calls of user functions: `#include "calls.h"`, then
 *
 *     int enter_copy(struct pt_regs *ctx) { return call_enter_with(ctx, COPY, SW_ARG3(ctx), 0, 0); }
 *     int leave_copy(struct pt_regs *ctx) { return call_leave(ctx, COPY); }
 *
 * A slot is a small number of the program's own that stands for a function (or for one kind of its
 * calls). Calls in flight are kept per thread and slot, sums per process and slot; the reader
 * (probes/functions/totals.py) takes differences. Two hash lookups at an entry's first time, one
 * afterwards; three at an exit.
 *
 * An exit belongs to the entry that had the same stack pointer: at an exit instruction it points
 * where it pointed at the entry, on x86-64 (the return address) and arm64 alike. So recursive calls are
 * told apart up to SW_CALL_DEPTH, and an entry whose frame is gone (an exception or longjmp left it)
 * is known by the thread's next entry at the same depth or above, and counted as abandoned. From
 * any later entry on, it is no longer shown as open.
 *
 * No loops but unrolled ones, no bpf-to-bpf calls, no cookies: Linux 4.18 (a map's value given to
 * another map). User-space registers only.
 */

/* Threads in a probed function's slot that live or died since the last flush: 64 processes of 50
 * threads with two or three functions each. 256 B each, so 2 MB. What does not fit is lost, reason 1. */
#ifndef SW_CALL_THREADS
#define SW_CALL_THREADS 8192
#endif
/* (process, slot) with a call: 64 processes and 60 functions, and as much again for short-lived
 * processes between two polls. 320 B each, so 2.5 MB. What does not fit is lost, reason 0. */
#ifndef SW_CALL_TOTALS
#define SW_CALL_TOTALS 8192
#endif
/* Processes with a call, dead ones for less than a poll. 24 B each. Full: lost, reason 0. */
#ifndef SW_CALL_PROCESSES
#define SW_CALL_PROCESSES 8192
#endif
/* Slots; each has its threshold for slow calls. */
#ifndef SW_CALL_SLOTS
#define SW_CALL_SLOTS 256
#endif
/* Slow calls between two polls half a second apart: 88 B each, 32 pages hold 1,400. Full: lost,
 * reason 2. */
#ifndef SW_CALL_RING_PAGES
#define SW_CALL_RING_PAGES 32
#endif
/* Streams and reasons that the program adds after ours; ours come first. */
#ifndef SW_CALL_MORE_STREAMS
#define SW_CALL_MORE_STREAMS 0
#endif
#ifndef SW_CALL_MORE_REASONS
#define SW_CALL_MORE_REASONS 0
#endif

/* Recursive calls of one function in one thread that are told apart: the frames below. */
#define SW_CALL_DEPTH 4
/* Finite buckets of a histogram, and one for what is above them. */
#define SW_CALL_BUCKETS 32

enum call_stream { SW_CALL_HITS, SW_CALL_SLOW, SW_CALL_STREAMS };
enum call_reason { SW_CALL_MAP_FULL, SW_CALL_THREADS_FULL, SW_CALL_RING_FULL, SW_CALL_REASONS };

struct call_frame {
	u64 start; /* CLOCK_MONOTONIC; 0: no call */
	u64 sp;
	u64 total; /* the slot that its end is counted under */
	u64 bytes;
	u64 a, b; /* the program's own: shown with a slow call */
};

/* Written by its own thread alone. */
struct call_thread {
	u64 open_since; /* start of the latest entry that has had no exit; 0: none */
	u64 entries;    /* not yet added to a total */
	u64 abandoned;  /* likewise */
	struct call_frame frames[SW_CALL_DEPTH]; /* the innermost first */
};

struct call_thread_key {
	u64 thread; /* bpf_get_current_pid_tgid() */
	u64 slot;
};

/* `born` is the time of the process's first hit, so that a pid used again is another key. */
struct call_key {
	u64 born;
	u32 tgid;
	u32 slot;
};

struct call_total {
	u64 hits;      /* entries and exits that led here: the weight of everything below */
	u64 calls;     /* exits, or entries of a function that is probed at its entry only */
	u64 timed;     /* of these, how many are in `sum` and `buckets` */
	u64 errors;
	u64 abandoned; /* entries whose exit never came */
	u64 sum;       /* nanoseconds, or of an observed value */
	u64 bytes;
	u64 last;      /* an observed value */
	u64 buckets[SW_CALL_BUCKETS];
};

struct call_slow {
	u64 time; /* of its end, CLOCK_MONOTONIC */
	u64 duration;
	u64 thread;
	u64 born;
	u64 slot;
	u64 failed;
	u64 bytes;
	u64 a, b;
};

SW_COUNTERS(SW_CALL_STREAMS + SW_CALL_MORE_STREAMS, SW_CALL_REASONS + SW_CALL_MORE_REASONS);
SW_HASH(call_threads, struct call_thread_key, struct call_thread, SW_CALL_THREADS);
SW_HASH(call_processes, u32, u64, SW_CALL_PROCESSES);
SW_HASH(call_totals, struct call_key, struct call_total, SW_CALL_TOTALS);
/* By slot: a call that took at least so many nanoseconds is an event; 0: none is. */
SW_ARRAY(call_thresholds, u64, SW_CALL_SLOTS);
SW_EVENTS(call_slow_events, SW_CALL_RING_PAGES);
/* Never written: what a new record begins as, since the stack has 512 bytes. */
SW_ARRAY(call_fresh_thread, struct call_thread, 1);
SW_ARRAY(call_fresh_total, struct call_total, 1);

/* floor(log2(value)), 0 for 0, without a loop. */
static __always_inline u32 call_log2(u64 value)
{
	u32 log = 0;

	if (value >> 32) {
		value >>= 32;
		log += 32;
	}
	if (value >> 16) {
		value >>= 16;
		log += 16;
	}
	if (value >> 8) {
		value >>= 8;
		log += 8;
	}
	if (value >> 4) {
		value >>= 4;
		log += 4;
	}
	if (value >> 2) {
		value >>= 2;
		log += 2;
	}
	return log + (value >> 1 ? 1 : 0);
}

/* Bucket k holds durations up to 2^(k - 20) seconds: 0.95 us, ... 1 s, ... 1024 s; the last one the
 * rest. 1e9 * 2^e nanoseconds lie between 2^(e + 29) and 2^(e + 30). */
static __always_inline u32 call_duration_bucket(u64 nanoseconds)
{
	u32 log = call_log2(nanoseconds);
	u64 bound;

	if (log < 9)
		return 0;
	if (log > 39)
		return SW_CALL_BUCKETS - 1;
	bound = log > 29 ? 1000000000ULL << (log - 29) : 1000000000ULL >> (29 - log);
	return log - 9 + (nanoseconds > bound ? 1 : 0);
}

/* Bucket k holds values up to 4^k: 1, 4, 16, ...; the last one the rest. */
static __always_inline u32 call_value_bucket(u64 value)
{
	u32 log;

	/* A negative number of a signed type, too. */
	if ((s64)value <= 1)
		return 0;
	log = (call_log2(value - 1) >> 1) + 1;
	return log > SW_CALL_BUCKETS - 1 ? SW_CALL_BUCKETS - 1 : log;
}

/* A bucket as an index: the barrier keeps the compiler from leaving out a mask that it knows to be
 * needless and that an older verifier (5.10) does not. */
static __always_inline u32 call_index(u32 bucket)
{
	asm volatile("" : "+r"(bucket));
	return bucket & (SW_CALL_BUCKETS - 1);
}

/* When the present process made its first hit; 0 when there is no room to remember it. */
static __always_inline u64 call_born(void)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u64 *known = sw_lookup(call_processes, &tgid);
	u64 now;

	if (known)
		return *known;
	now = bpf_ktime_get_ns();
	sw_insert(call_processes, &tgid, &now);
	/* Another thread may have been first. */
	known = sw_lookup(call_processes, &tgid);
	return known ? *known : 0;
}

/* The sums of the present process; counts `hits` as lost where there is no room for them. */
static __always_inline struct call_total *call_total_of(u32 slot, u64 born, u64 hits)
{
	struct call_key key = {};
	struct call_total *total = 0, *fresh;
	u32 first = 0;

	key.tgid = bpf_get_current_pid_tgid() >> 32;
	key.slot = slot;
	key.born = born;
	if (born) {
		total = sw_lookup(call_totals, &key);
		if (!total) {
			fresh = sw_lookup(call_fresh_total, &first);
			if (fresh)
				sw_insert(call_totals, &key, fresh);
			total = sw_lookup(call_totals, &key);
		}
	}
	/* Never an addition of 0: the compiler makes it another atomic operation, which needs Linux 5.12. */
	if (!total && hits)
		sw_add(sw_lost, SW_CALL_MAP_FULL, hits);
	return total;
}

/* The innermost frame is gone. */
static __always_inline void call_pop(struct call_thread *thread)
{
	if (!thread->frames[1].start) {
		thread->frames[0].start = 0;
		return;
	}
#pragma unroll
	for (int i = 0; i < SW_CALL_DEPTH - 1; i++)
		thread->frames[i] = thread->frames[i + 1];
	thread->frames[SW_CALL_DEPTH - 1].start = 0;
}

/* Room for a frame; the outermost is given up where there is none. */
static __always_inline void call_push(struct call_thread *thread)
{
	if (!thread->frames[0].start)
		return;
	if (thread->frames[SW_CALL_DEPTH - 1].start)
		thread->abandoned += 1;
#pragma unroll
	for (int i = SW_CALL_DEPTH - 1; i > 0; i--)
		thread->frames[i] = thread->frames[i - 1];
}

/* A call begins. Its end is counted under the slot `total`; `bytes` are added there, `a` and `b`
 * are shown if it is slow. */
static __always_inline int call_enter_as(struct pt_regs *ctx, u32 slot, u32 total, u64 bytes,
					 u64 a, u64 b)
{
	struct call_thread_key key = {};
	struct call_thread *thread, *fresh;
	u64 sp = SW_STACK_POINTER(ctx);
	u32 first = 0;

	sw_count(sw_produced, SW_CALL_HITS);
	key.thread = bpf_get_current_pid_tgid();
	key.slot = slot;
	thread = sw_lookup(call_threads, &key);
	if (!thread) {
		fresh = sw_lookup(call_fresh_thread, &first);
		if (fresh)
			sw_insert(call_threads, &key, fresh);
		thread = sw_lookup(call_threads, &key);
	}
	if (!thread) {
		sw_count(sw_lost, SW_CALL_THREADS_FULL);
		return 0;
	}
	thread->entries += 1;
#pragma unroll
	for (int i = 0; i < SW_CALL_DEPTH; i++) {
		if (thread->frames[0].start && thread->frames[0].sp <= sp) {
			call_pop(thread);
			thread->abandoned += 1;
		}
	}
	call_push(thread);
	thread->frames[0].sp = sp;
	thread->frames[0].total = total;
	thread->frames[0].bytes = bytes;
	thread->frames[0].a = a;
	thread->frames[0].b = b;
	thread->open_since = bpf_ktime_get_ns();
	thread->frames[0].start = thread->open_since;
	return 0;
}

static __always_inline int call_enter_with(struct pt_regs *ctx, u32 slot, u64 bytes, u64 a, u64 b)
{
	return call_enter_as(ctx, slot, slot, bytes, a, b);
}

static __always_inline int call_enter(struct pt_regs *ctx, u32 slot)
{
	return call_enter_as(ctx, slot, slot, 0, 0, 0);
}

static __always_inline void call_tell(struct pt_regs *ctx, struct call_frame *frame, u64 now,
				      u64 born, bool failed)
{
	u32 slot = frame->total;
	u64 *threshold = sw_lookup(call_thresholds, &slot);
	struct call_slow slow = {};

	if (!threshold || !*threshold || now - frame->start < *threshold)
		return;
	sw_count(sw_produced, SW_CALL_SLOW);
	slow.time = now;
	slow.duration = now - frame->start;
	slow.thread = bpf_get_current_pid_tgid();
	slow.born = born;
	slow.slot = slot;
	slow.failed = failed;
	slow.bytes = frame->bytes;
	slow.a = frame->a;
	slow.b = frame->b;
	if (sw_output(call_slow_events, ctx, &slow))
		sw_count(sw_lost, SW_CALL_RING_FULL);
}

/* A call ends; `failed` by its return value, `bytes` that were not known before. An exit without its
 * entry (probed in mid-call) counts as a call of `slot` that was not timed. */
static __always_inline int call_leave_with(struct pt_regs *ctx, u32 slot, bool failed, u64 bytes)
{
	u64 now = bpf_ktime_get_ns(), sp = SW_STACK_POINTER(ctx), hits = 1, gone = 0;
	u64 born = call_born();
	struct call_thread_key key = {};
	struct call_frame frame = {};
	struct call_thread *thread;
	struct call_total *total;

	sw_count(sw_produced, SW_CALL_HITS);
	key.thread = bpf_get_current_pid_tgid();
	key.slot = slot;
	frame.total = slot;
	thread = sw_lookup(call_threads, &key);
	if (thread) {
#pragma unroll
		for (int i = 0; i < SW_CALL_DEPTH; i++) {
			if (thread->frames[0].start && thread->frames[0].sp < sp) {
				call_pop(thread);
				thread->abandoned += 1;
			}
		}
		if (thread->frames[0].start && thread->frames[0].sp == sp) {
			frame = thread->frames[0];
			call_pop(thread);
		}
		hits += thread->entries;
		gone = thread->abandoned;
		/* Closed before it is added: a reader in between sees too little, and mends it. */
		thread->open_since = 0;
		thread->entries = 0;
		thread->abandoned = 0;
	}
	total = call_total_of(frame.total, born, hits);
	if (!total)
		return 0;
	__sync_fetch_and_add(&total->hits, hits);
	__sync_fetch_and_add(&total->calls, 1);
	if (gone)
		__sync_fetch_and_add(&total->abandoned, gone);
	if (failed)
		__sync_fetch_and_add(&total->errors, 1);
	if (frame.bytes + bytes)
		__sync_fetch_and_add(&total->bytes, frame.bytes + bytes);
	if (frame.start) {
		u32 bucket = call_index(call_duration_bucket(now - frame.start));

		__sync_fetch_and_add(&total->timed, 1);
		__sync_fetch_and_add(&total->sum, now - frame.start);
		__sync_fetch_and_add(&total->buckets[bucket], 1);
		call_tell(ctx, &frame, now, born, failed);
	}
	return 0;
}

/* At an exit, before it is told: what its entry kept; null if that was not seen. */
static __always_inline struct call_frame *call_frame_of(struct pt_regs *ctx, u32 slot)
{
	struct call_thread_key key = {};
	struct call_thread *thread;

	key.thread = bpf_get_current_pid_tgid();
	key.slot = slot;
	thread = sw_lookup(call_threads, &key);
	if (!thread || !thread->frames[0].start || thread->frames[0].sp != SW_STACK_POINTER(ctx))
		return 0;
	return &thread->frames[0];
}

static __always_inline int call_leave(struct pt_regs *ctx, u32 slot)
{
	return call_leave_with(ctx, slot, 0, 0);
}

static __always_inline int call_leave_result(struct pt_regs *ctx, u32 slot, bool failed)
{
	return call_leave_with(ctx, slot, failed, 0);
}

/* A call of a function that is probed at its entry only. */
static __always_inline int call_count(struct pt_regs *ctx, u32 slot, u64 bytes)
{
	struct call_total *total;

	sw_count(sw_produced, SW_CALL_HITS);
	total = call_total_of(slot, call_born(), 1);
	if (!total)
		return 0;
	__sync_fetch_and_add(&total->hits, 1);
	__sync_fetch_and_add(&total->calls, 1);
	if (bytes)
		__sync_fetch_and_add(&total->bytes, bytes);
	return 0;
}

/* A value seen, into a histogram of its own. `hits` is 0 where the same hit is counted elsewhere. */
static __always_inline int call_observe(struct pt_regs *ctx, u32 slot, u64 value, u64 hits)
{
	u32 bucket = call_index(call_value_bucket(value));
	struct call_total *total;

	if (hits)
		sw_count(sw_produced, SW_CALL_HITS);
	total = call_total_of(slot, call_born(), hits);
	if (!total)
		return 0;
	if (hits)
		__sync_fetch_and_add(&total->hits, hits);
	__sync_fetch_and_add(&total->calls, 1);
	__sync_fetch_and_add(&total->timed, 1);
	__sync_fetch_and_add(&total->sum, value);
	__sync_fetch_and_add(&total->buckets[bucket], 1);
	total->last = value;
	return 0;
}

/* On the raw tracepoint sched_process_exit: a process that has calls ends with its first thread, and
 * whoever gets its pid next begins anew. Every other thread's end costs one comparison, every other
 * process's one lookup. */
int call_exit(void *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tgid = id >> 32;

	if ((u32)id != tgid)
		return 0;
	if (sw_lookup(call_processes, &tgid))
		sw_delete(call_processes, &tgid);
	return 0;
}
