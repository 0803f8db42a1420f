/*
 * Follows what marks the steps of a PyTorch job, and what blocks its threads for other ranks. All of
 * it is exported by libtorch_cpu.so, whatever the device.
 *
 *   c10d::Reducer::finalize_backward       ends the backward pass of DistributedDataParallel, and waits
 *                                          until all gradients are reduced
 *   c10d::Work::wait and its like          waits for one collective, on the thread that asks for it:
 *                                          FSDP, dist.all_reduce, dist.barrier
 *   gloo::...::waitRecv, waitSend          a thread of Gloo waits for data of other ranks
 *   torch::autograd::Engine::execute       one backward pass
 *   torch::autograd::profiler::record_function_enter_new
 *                                          opens a named range: each step of a torch.optim optimizer
 *                                          is one, and so is the step marker of a job
 *   c10d::ProcessGroupGloo::AsyncWork::AsyncWork
 *                                          one for each collective on Gloo
 *
 * Exits are probed at their instructions. No return probe: a C++ exception cannot unwind through
 * its trampoline.
 *
 * Waits nest (a reducer may wait for a collective) and count once: only the outermost call of a thread
 * is timed. It is known by its stack pointer, which at an exit instruction points where it
 * pointed at the entry. A frame that lies above a later one is alive; one that lies at the same
 * place or below has been left by an exception, and its wait ends there, as abandoned.
 *
 * Why these functions: they are called a few times a step, a few hundred times by FSDP. Kernel 4.17
 * (the uprobe PMU; tracefs before and where the PMU is refused), with a ring buffer 5.8. Needs
 * CAP_SYS_ADMIN.
 *
 * One record per thread, written by that thread alone, so nothing needs to be atomic. All sums only
 * grow; the reader takes differences and never deletes the record of a living thread. A thread is known
 * by its process, too: on_exit forgets a process whose first thread ends, so that whoever gets its pid
 * next begins records of its own.
 */

/* Threads that hit a probe and live: a few per rank, so 4,096 are far above any node. 368 B each.
 * When full, the hit is lost and counted. */
#ifndef MAX_THREADS
#define MAX_THREADS 4096
#endif
/* Processes that hit a probe and live: 64 ranks and their workers, so 8,192 are far above. 16 B each. One
 * that does not fit is told apart by its pid alone; nothing of it is lost. */
#ifndef MAX_PROCESSES
#define MAX_PROCESSES 8192
#endif
/* Collectives between two polls half a second apart: 24 B each, its header included, so that 64 pages
 * hold 10,900, of 64 ranks 170 each. What does not fit is counted; the period is found all the same. */
#ifndef COLLECTIVE_PAGES
#define COLLECTIVE_PAGES 64
#endif

enum op { FINALIZE_BACKWARD, WAIT, SEND, RECV, MONITORED_BARRIER, OPS = 8 };
enum mark { MARKER, DDP, OPTIMIZER, MARKS };
/* What is put under one budget together; the order is that of GROUPS in functions.py. */
enum group { REDUCER, WAITS, FLIGHTS, BACKWARD, RANGES, NVTX, MARKERS, COLLECTIVE, GROUPS };
enum stream { HITS, COLLECTIVES, STREAMS };
enum reason { MAP_FULL, RING_FULL, REASONS };

/* The steps that one kind of mark tells, of one thread. */
struct steps {
	u64 marks;
	u64 timed;       /* steps with a known start */
	u64 span_ns;     /* of timed steps, mark to mark */
	u64 wait_ns;     /* of timed steps, spent in waits */
	u64 last;        /* CLOCK_MONOTONIC; 0: no mark yet */
	u64 wait_before; /* all waits up to it */
};

struct thread {
	u64 hits;        /* counted as produced */
	u64 abandoned;   /* entries with no exit */
	u64 open_since;  /* the outermost wait; 0: not inside; CLOCK_MONOTONIC */
	u64 open_sp;
	u64 open_op;
	u64 wait_ns;     /* closed waits */
	u64 op_ns[OPS];  /* the same, by operation */
	u64 backwards;   /* outermost entries */
	u64 backward_sp; /* 0: not inside */
	u64 finalizing;  /* 1: inside finalize_backward */
	u64 flight_ns;   /* in Gloo's waits for data that are over */
	u64 flight_since;
	struct steps steps[MARKS];
	u64 traps[GROUPS];
};

struct thread_key {
	u64 thread; /* bpf_get_current_pid_tgid() */
	u64 born;   /* the process's first hit, CLOCK_MONOTONIC; 0: there was no room to remember it */
};

struct collective {
	u64 time;
	u32 tgid;
	u32 symbol;
};

SW_HASH(threads, struct thread_key, struct thread, MAX_THREADS);
SW_HASH(processes, u32, u64, MAX_PROCESSES);
/* Never written: what a record begins as. */
SW_ARRAY(fresh_thread, struct thread, 1);
SW_EVENTS(collectives, COLLECTIVE_PAGES);
SW_COUNTERS(STREAMS, REASONS);

/* A range so soon after the last one is the same: the file is attached under two names, as overlay
 * mounts show one. */
#define SAME_RANGE_NS 10000
/* "Optimizer.step#" and "stallwatch.step", in words of eight bytes. */
#define OPTIMIZER_1 0x657a696d6974704fULL
#define OPTIMIZER_2 0x0023706574732e72ULL
#define MARKER_1 0x7461776c6c617473ULL
#define MARKER_2 0x00706574732e6863ULL
#define FIFTEEN 0x00ffffffffffffffULL

static __always_inline u64 born(void)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u64 *known = sw_lookup(processes, &tgid);
	u64 now;

	if (known)
		return *known;
	now = bpf_ktime_get_ns();
	sw_insert(processes, &tgid, &now);
	/* Another thread may have been first. */
	known = sw_lookup(processes, &tgid);
	return known ? *known : 0;
}

static __always_inline struct thread *thread_of(void)
{
	struct thread_key key = {};
	struct thread *thread, *fresh;
	u32 first = 0;

	key.thread = bpf_get_current_pid_tgid();
	key.born = born();
	thread = sw_lookup(threads, &key);
	if (thread)
		return thread;
	fresh = sw_lookup(fresh_thread, &first);
	if (fresh)
		sw_insert(threads, &key, fresh);
	return sw_lookup(threads, &key);
}

/* The present thread, for a hit; 0 where there is no room. */
static __always_inline struct thread *hit(u32 group)
{
	struct thread *thread = thread_of();

	sw_count(sw_produced, HITS);
	if (thread) {
		thread->hits += 1;
		thread->traps[group] += 1;
	} else {
		sw_count(sw_lost, MAP_FULL);
	}
	return thread;
}

/* The outermost wait is over. Closed before it is added: a reader in between sees too little, and
 * mends it next time. */
static __always_inline void close_wait(struct thread *thread, u64 now)
{
	u64 wait = now - thread->open_since;

	thread->open_since = 0;
	thread->wait_ns += wait;
	thread->op_ns[thread->open_op & (OPS - 1)] += wait;
}

static __always_inline void mark_step(struct thread *thread, u32 mark, u64 now)
{
	struct steps *steps = &thread->steps[mark];

	if (steps->last) {
		steps->timed += 1;
		steps->span_ns += now - steps->last;
		steps->wait_ns += thread->wait_ns - steps->wait_before;
	}
	steps->marks += 1;
	steps->last = now;
	steps->wait_before = thread->wait_ns;
}

/* Both return the thread, for what else the call means. */
static __always_inline struct thread *enter_wait_of(struct pt_regs *ctx, u32 op)
{
	u64 sp = SW_STACK_POINTER(ctx), now = bpf_ktime_get_ns();
	struct thread *thread = hit(op == FINALIZE_BACKWARD ? REDUCER : WAITS);

	if (!thread)
		return 0;
	if (thread->open_since) {
		if (sp < thread->open_sp)
			return thread;
		close_wait(thread, now);
		thread->abandoned += 1;
	}
	thread->open_sp = sp;
	thread->open_op = op;
	thread->open_since = now;
	return thread;
}

static __always_inline struct thread *leave_wait_of(struct pt_regs *ctx, u32 group, u64 now)
{
	u64 sp = SW_STACK_POINTER(ctx);
	struct thread *thread = hit(group);

	if (thread && thread->open_since && sp >= thread->open_sp) {
		if (sp > thread->open_sp)
			thread->abandoned += 1;
		close_wait(thread, now);
	}
	return thread;
}

/* Gloo waits for data of others, on a thread of its own or on the one that asks. These do not nest,
 * and one that an exception left is forgotten with the next. */
int enter_flight(struct pt_regs *ctx)
{
	struct thread *thread = hit(FLIGHTS);

	if (thread)
		thread->flight_since = bpf_ktime_get_ns();
	return 0;
}

int leave_flight(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns(), since;
	struct thread *thread = hit(FLIGHTS);

	if (!thread)
		return 0;
	since = thread->flight_since;
	thread->flight_since = 0;
	if (since)
		thread->flight_ns += now - since;
	return 0;
}

int enter_finalize(struct pt_regs *ctx)
{
	struct thread *thread = enter_wait_of(ctx, FINALIZE_BACKWARD);

	if (thread)
		thread->finalizing = 1;
	return 0;
}

int leave_finalize(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = leave_wait_of(ctx, REDUCER, now);

	/* Not inside, and it has been before: the same file is attached under a second name (overlay
	 * mounts). A first exit without an entry was probed in mid-call. */
	if (!thread || (!thread->finalizing && thread->steps[DDP].marks))
		return 0;
	thread->finalizing = 0;
	mark_step(thread, DDP, now);
	return 0;
}

/* For a build whose exits cannot be found: the entry alone marks the step, and no wait is known. */
int mark_finalize(struct pt_regs *ctx)
{
	struct thread *thread = hit(REDUCER);

	if (thread)
		mark_step(thread, DDP, bpf_ktime_get_ns());
	return 0;
}

int enter_wait(struct pt_regs *ctx)
{
	enter_wait_of(ctx, WAIT);
	return 0;
}

int enter_send(struct pt_regs *ctx)
{
	enter_wait_of(ctx, SEND);
	return 0;
}

int enter_recv(struct pt_regs *ctx)
{
	enter_wait_of(ctx, RECV);
	return 0;
}

int enter_barrier(struct pt_regs *ctx)
{
	enter_wait_of(ctx, MONITORED_BARRIER);
	return 0;
}

/* For a build whose exits cannot be found: no wait is known. */
int mark_wait(struct pt_regs *ctx)
{
	hit(WAITS);
	return 0;
}

int leave_wait(struct pt_regs *ctx)
{
	leave_wait_of(ctx, WAITS, bpf_ktime_get_ns());
	return 0;
}

/* A checkpointed segment runs a backward pass inside the backward pass; it is not one of its own. */
int enter_backward(struct pt_regs *ctx)
{
	u64 sp = SW_STACK_POINTER(ctx);
	struct thread *thread = hit(BACKWARD);

	if (!thread || (thread->backward_sp && sp < thread->backward_sp))
		return 0;
	thread->backwards += 1;
	thread->backward_sp = sp;
	return 0;
}

int mark_backward(struct pt_regs *ctx)
{
	struct thread *thread = hit(BACKWARD);

	if (thread)
		thread->backwards += 1;
	return 0;
}

int leave_backward(struct pt_regs *ctx)
{
	struct thread *thread = hit(BACKWARD);

	if (thread && SW_STACK_POINTER(ctx) >= thread->backward_sp)
		thread->backward_sp = 0;
	return 0;
}

/* A range is opened under a name, whose first bytes are read. */
static __always_inline int open_range(struct pt_regs *ctx, u64 name, u32 group)
{
	u64 now = bpf_ktime_get_ns(), words[2] = {};
	struct thread *thread;
	u32 mark;

	sw_read_user(&words, sizeof(words), (void *)name);
	words[1] &= FIFTEEN;
	if (words[0] == OPTIMIZER_1 && words[1] == OPTIMIZER_2) {
		mark = OPTIMIZER;
	} else if (words[0] == MARKER_1 && words[1] == MARKER_2) {
		mark = MARKER;
	} else {
		/* Not ours: only what its traps cost is kept. */
		thread = thread_of();
		if (thread)
			thread->traps[group] += 1;
		return 0;
	}
	thread = hit(group);
	if (!thread)
		return 0;
	if (mark == OPTIMIZER && now - thread->steps[OPTIMIZER].last >= SAME_RANGE_NS)
		mark_step(thread, OPTIMIZER, now);
	if (mark == MARKER && now - thread->steps[MARKER].last >= SAME_RANGE_NS)
		mark_step(thread, MARKER, now);
	return 0;
}

/* record_function_enter_new(const std::string &name, ...) returns an object, for which the caller's
 * address comes first on x86-64, and in a register of its own on arm64. A std::string begins with
 * the address of its characters, in the old and in the new ABI of libstdc++. */
int enter_range(struct pt_regs *ctx)
{
#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
	u64 text = SW_ARG1(ctx);
#else
	u64 text = SW_ARG2(ctx);
#endif
	u64 name = 0;

	sw_read_user(&name, sizeof(name), (void *)text);
	return open_range(ctx, name, RANGES);
}

/* nvtxRangePushA(const char *message) */
int enter_nvtx(struct pt_regs *ctx)
{
	return open_range(ctx, SW_ARG1(ctx), NVTX);
}

/* stallwatch_step(), of any library or program */
int enter_marker(struct pt_regs *ctx)
{
	struct thread *thread = hit(MARKERS);

	if (thread)
		mark_step(thread, MARKER, bpf_ktime_get_ns());
	return 0;
}

/* AsyncWork(this, context, outputs, OpType, ...), in older versions AsyncWork(this, outputs, OpType, ...).
 * Objects are passed by address, and no address is as small as an OpType. */
int enter_collective(struct pt_regs *ctx)
{
	u64 third = SW_ARG3(ctx);
	struct collective collective = {};
	struct thread *thread = thread_of();

	if (thread)
		thread->traps[COLLECTIVE] += 1;
	sw_count(sw_produced, COLLECTIVES);
	collective.time = bpf_ktime_get_ns();
	collective.tgid = bpf_get_current_pid_tgid() >> 32;
	collective.symbol = (third < 256 ? third : SW_ARG4(ctx)) & 0xff;
	if (sw_output(collectives, ctx, &collective))
		sw_count(sw_lost, RING_FULL);
	return 0;
}

/* On the raw tracepoint sched_process_exit. Every other thread's end costs one comparison, every other
 * process's one lookup. */
int on_exit(void *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tgid = id >> 32;

	if ((u32)id != tgid)
		return 0;
	if (sw_lookup(processes, &tgid))
		sw_delete(processes, &tgid);
	return 0;
}
