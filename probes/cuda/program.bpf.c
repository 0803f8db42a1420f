/*
 * Counts and times the calls that processes make of CUDA's runtime and driver API, and keeps account
 * of the device memory that each one holds.
 *
 * Why uprobes: the driver has no tracepoint for any of this, and CUPTI allows one client a process,
 * which is the user's profiler. Entries and exit instructions, no return probe. Launches are called
 * tens of thousands of times a second: they are counted at their entry, one trap each. Everything
 * else is timed. What a call took is host time, not device time.
 *
 * Kernel 4.18 (see calls.h). Needs CAP_SYS_ADMIN for uprobes.
 *
 * A slot is a function's number (calls.py passes it as the function's name in upper case), times eight,
 * plus the direction of a copy.
 */

/* 46 functions, 8 directions each. */
#define SW_CALL_SLOTS 512
#define SW_CALL_MORE_STREAMS 1
#define SW_CALL_MORE_REASONS 2
#include "calls.h"

#define STREAM_MEMORY SW_CALL_STREAMS
#define LOST_ALLOCATION SW_CALL_REASONS
#define LOST_HELD (SW_CALL_REASONS + 1)

/* Directions: cudaMemcpyKind plus one, so that 0 is none. */
#define H2H 1
#define H2D 2
#define D2H 3
#define D2D 4
#define BY_ADDRESS 5
#define PEER 6
#define UNKNOWN 7

/* Where a pointer is unique: an address (device, pinned and managed memory share one space under
 * unified addressing), or a handle of cuMemCreate. */
#define ADDRESS 0
#define HANDLE 1

/* Kinds of memory, as calls.py has them. */
#define DEVICE 0
#define POOL 1
#define MANAGED 2
#define HOST 3
#define VMM 4

/* Living allocations of all processes: 64 processes with 1,000 segments of PyTorch's allocator each.
 * 48 B each, 3 MB. What does not fit is not in the gauge, and lost, reason `allocations_full`. */
#ifndef ALLOCATIONS_LIMIT
#define ALLOCATIONS_LIMIT 65536
#endif
/* (process, kind of memory): 64 processes, as many that ended since the last look, five kinds. 40 B
 * each. Full: lost, reason `map_full`. */
#ifndef HELD_LIMIT
#define HELD_LIMIT 2048
#endif

struct allocation_key {
	u64 pointer;
	u32 tgid;
	u32 space;
};

/* `born`: of the process, see calls.h; what another program in this process left is nobody's. */
struct allocation {
	u64 born;
	u64 bytes;
	u64 kind;
};

struct held_key {
	u64 born;
	u32 tgid;
	u32 kind;
};

/* `changes`: allocations and frees that led here, the weight of `bytes`. */
struct held {
	u64 changes;
	u64 bytes;
};

SW_HASH(allocations, struct allocation_key, struct allocation, ALLOCATIONS_LIMIT);
SW_HASH(held, struct held_key, struct held, HELD_LIMIT);

static __always_inline void hold(u64 born, u32 kind, u64 bytes, u64 changes)
{
	struct held_key key = {};
	struct held fresh = {}, *known;

	key.born = born;
	key.tgid = bpf_get_current_pid_tgid() >> 32;
	key.kind = kind;
	known = sw_lookup(held, &key);
	if (!known) {
		sw_insert(held, &key, &fresh);
		known = sw_lookup(held, &key);
	}
	if (!known) {
		sw_add(sw_lost, LOST_HELD, changes);
		return;
	}
	__sync_fetch_and_add(&known->changes, changes);
	__sync_fetch_and_add(&known->bytes, bytes);
}

/* An allocation succeeded. The runtime's functions call the driver's, so a pointer may be known. */
static __always_inline void remember(u64 pointer, u64 bytes, u32 space, u32 kind)
{
	struct allocation_key key = {};
	struct allocation fresh = {}, *known;
	u64 born = call_born();

	if (!born || !pointer)
		return;
	key.pointer = pointer;
	key.tgid = bpf_get_current_pid_tgid() >> 32;
	key.space = space;
	known = sw_lookup(allocations, &key);
	if (known && known->born == born) {
		if (known->bytes == bytes)
			return;
		/* Its end was not seen: the free came through a function that is not probed. */
		hold(born, known->kind, -known->bytes, 0);
	}
	sw_count(sw_produced, STREAM_MEMORY);
	fresh.born = born;
	fresh.bytes = bytes;
	fresh.kind = kind;
	if (sw_update(allocations, &key, &fresh))
		sw_count(sw_lost, LOST_ALLOCATION);
	else
		hold(born, kind, bytes, 1);
}

/* At the entry of a free: once it has returned, the pointer may be another thread's. */
static __always_inline void forget(u64 pointer, u32 space)
{
	struct allocation_key key = {};
	struct allocation *known, was;

	if (!pointer)
		return;
	key.pointer = pointer;
	key.tgid = bpf_get_current_pid_tgid() >> 32;
	key.space = space;
	known = sw_lookup(allocations, &key);
	/* Not known: allocated before we were here, or the runtime's free has told already. */
	if (!known)
		return;
	was = *known;
	if (sw_delete(allocations, &key) || was.born != call_born())
		return;
	sw_count(sw_produced, STREAM_MEMORY);
	hold(was.born, was.kind, -was.bytes, 1);
}

#define SLOT(number, direction) ((number) << 3 | (direction))
#define FAILED(ctx) ((u32)SW_RETVAL(ctx) != 0)

static __always_inline int synchronise(struct pt_regs *ctx, u32 number)
{
	return call_enter(ctx, SLOT(number, 0));
}

static __always_inline int copy(struct pt_regs *ctx, u32 number, u32 direction, u64 bytes)
{
	return call_enter_as(ctx, SLOT(number, 0), SLOT(number, direction), bytes, 0, 0);
}

/* `kind`: a cudaMemcpyKind. */
static __always_inline int copy_of_kind(struct pt_regs *ctx, u32 number, u64 kind, u64 bytes)
{
	u32 direction = (u32)kind < BY_ADDRESS ? (u32)kind + 1 : UNKNOWN;

	return copy(ctx, number, direction, bytes);
}

/* cudaMemcpy2D[Async](to, pitch, from, pitch, width, height, kind, ...) */
static __always_inline int copy_2d(struct pt_regs *ctx, u32 number)
{
	u64 kind = UNKNOWN;

#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
	kind = ctx->regs[6];
#else
	SW_STACK_ARG(&kind, ctx, 0);
#endif
	return copy_of_kind(ctx, number, kind, SW_ARG5(ctx) * SW_ARG6(ctx));
}

/* f(pointer *out, size_t bytes, ...): where the pointer will be is kept until the call has ended. */
static __always_inline int allocate(struct pt_regs *ctx, u32 number)
{
	return call_enter_with(ctx, SLOT(number, 0), SW_ARG2(ctx), SW_ARG1(ctx), 0);
}

static __always_inline int allocated(struct pt_regs *ctx, u32 number, u32 space, u32 kind)
{
	struct call_frame *frame = call_frame_of(ctx, SLOT(number, 0));
	u64 pointer = 0;

	if (frame && !FAILED(ctx) && !sw_read_user(&pointer, 8, (void *)frame->a))
		remember(pointer, frame->bytes, space, kind);
	return call_leave_result(ctx, SLOT(number, 0), FAILED(ctx));
}

static __always_inline int release(struct pt_regs *ctx, u32 number, u32 space)
{
	forget(SW_ARG1(ctx), space);
	return call_enter(ctx, SLOT(number, 0));
}

static __always_inline int ended(struct pt_regs *ctx, u32 number)
{
	return call_leave_result(ctx, SLOT(number, 0), FAILED(ctx));
}

static __always_inline int launch(struct pt_regs *ctx, u32 number)
{
	return call_count(ctx, SLOT(number, 0), 0);
}

int enter_cudaStreamSynchronize(struct pt_regs *ctx) { return synchronise(ctx, CUDASTREAMSYNCHRONIZE); }
int leave_cudaStreamSynchronize(struct pt_regs *ctx) { return ended(ctx, CUDASTREAMSYNCHRONIZE); }
int enter_cudaEventSynchronize(struct pt_regs *ctx) { return synchronise(ctx, CUDAEVENTSYNCHRONIZE); }
int leave_cudaEventSynchronize(struct pt_regs *ctx) { return ended(ctx, CUDAEVENTSYNCHRONIZE); }
int enter_cudaDeviceSynchronize(struct pt_regs *ctx) { return synchronise(ctx, CUDADEVICESYNCHRONIZE); }
int leave_cudaDeviceSynchronize(struct pt_regs *ctx) { return ended(ctx, CUDADEVICESYNCHRONIZE); }

int enter_cudaMemcpy(struct pt_regs *ctx) { return copy_of_kind(ctx, CUDAMEMCPY, SW_ARG4(ctx), SW_ARG3(ctx)); }
int leave_cudaMemcpy(struct pt_regs *ctx) { return ended(ctx, CUDAMEMCPY); }
int enter_cudaMemcpyAsync(struct pt_regs *ctx) { return copy_of_kind(ctx, CUDAMEMCPYASYNC, SW_ARG4(ctx), SW_ARG3(ctx)); }
int leave_cudaMemcpyAsync(struct pt_regs *ctx) { return ended(ctx, CUDAMEMCPYASYNC); }
int enter_cudaMemcpy2D(struct pt_regs *ctx) { return copy_2d(ctx, CUDAMEMCPY2D); }
int leave_cudaMemcpy2D(struct pt_regs *ctx) { return ended(ctx, CUDAMEMCPY2D); }
int enter_cudaMemcpy2DAsync(struct pt_regs *ctx) { return copy_2d(ctx, CUDAMEMCPY2DASYNC); }
int leave_cudaMemcpy2DAsync(struct pt_regs *ctx) { return ended(ctx, CUDAMEMCPY2DASYNC); }
int enter_cudaMemcpyPeer(struct pt_regs *ctx) { return copy(ctx, CUDAMEMCPYPEER, PEER, SW_ARG5(ctx)); }
int leave_cudaMemcpyPeer(struct pt_regs *ctx) { return ended(ctx, CUDAMEMCPYPEER); }
int enter_cudaMemcpyPeerAsync(struct pt_regs *ctx) { return copy(ctx, CUDAMEMCPYPEERASYNC, PEER, SW_ARG5(ctx)); }
int leave_cudaMemcpyPeerAsync(struct pt_regs *ctx) { return ended(ctx, CUDAMEMCPYPEERASYNC); }

int enter_cudaMalloc(struct pt_regs *ctx) { return allocate(ctx, CUDAMALLOC); }
int leave_cudaMalloc(struct pt_regs *ctx) { return allocated(ctx, CUDAMALLOC, ADDRESS, DEVICE); }
int enter_cudaMallocAsync(struct pt_regs *ctx) { return allocate(ctx, CUDAMALLOCASYNC); }
int leave_cudaMallocAsync(struct pt_regs *ctx) { return allocated(ctx, CUDAMALLOCASYNC, ADDRESS, POOL); }
int enter_cudaMallocManaged(struct pt_regs *ctx) { return allocate(ctx, CUDAMALLOCMANAGED); }
int leave_cudaMallocManaged(struct pt_regs *ctx) { return allocated(ctx, CUDAMALLOCMANAGED, ADDRESS, MANAGED); }
int enter_cudaMallocHost(struct pt_regs *ctx) { return allocate(ctx, CUDAMALLOCHOST); }
int leave_cudaMallocHost(struct pt_regs *ctx) { return allocated(ctx, CUDAMALLOCHOST, ADDRESS, HOST); }

int enter_cudaFree(struct pt_regs *ctx) { return release(ctx, CUDAFREE, ADDRESS); }
int leave_cudaFree(struct pt_regs *ctx) { return ended(ctx, CUDAFREE); }
int enter_cudaFreeAsync(struct pt_regs *ctx) { return release(ctx, CUDAFREEASYNC, ADDRESS); }
int leave_cudaFreeAsync(struct pt_regs *ctx) { return ended(ctx, CUDAFREEASYNC); }
int enter_cudaFreeHost(struct pt_regs *ctx) { return release(ctx, CUDAFREEHOST, ADDRESS); }
int leave_cudaFreeHost(struct pt_regs *ctx) { return ended(ctx, CUDAFREEHOST); }

int enter_cudaLaunchKernel(struct pt_regs *ctx) { return launch(ctx, CUDALAUNCHKERNEL); }
int enter_cudaLaunchKernelExC(struct pt_regs *ctx) { return launch(ctx, CUDALAUNCHKERNELEXC); }
int enter_cudaLaunchCooperativeKernel(struct pt_regs *ctx) { return launch(ctx, CUDALAUNCHCOOPERATIVEKERNEL); }

int enter_cudaGraphLaunch(struct pt_regs *ctx) { return call_enter(ctx, SLOT(CUDAGRAPHLAUNCH, 0)); }
int leave_cudaGraphLaunch(struct pt_regs *ctx) { return ended(ctx, CUDAGRAPHLAUNCH); }

int enter_cuStreamSynchronize(struct pt_regs *ctx) { return synchronise(ctx, CUSTREAMSYNCHRONIZE); }
int leave_cuStreamSynchronize(struct pt_regs *ctx) { return ended(ctx, CUSTREAMSYNCHRONIZE); }
int enter_cuEventSynchronize(struct pt_regs *ctx) { return synchronise(ctx, CUEVENTSYNCHRONIZE); }
int leave_cuEventSynchronize(struct pt_regs *ctx) { return ended(ctx, CUEVENTSYNCHRONIZE); }
int enter_cuCtxSynchronize(struct pt_regs *ctx) { return synchronise(ctx, CUCTXSYNCHRONIZE); }
int leave_cuCtxSynchronize(struct pt_regs *ctx) { return ended(ctx, CUCTXSYNCHRONIZE); }

int enter_cuMemcpy(struct pt_regs *ctx) { return copy(ctx, CUMEMCPY, BY_ADDRESS, SW_ARG3(ctx)); }
int leave_cuMemcpy(struct pt_regs *ctx) { return ended(ctx, CUMEMCPY); }
int enter_cuMemcpyAsync(struct pt_regs *ctx) { return copy(ctx, CUMEMCPYASYNC, BY_ADDRESS, SW_ARG3(ctx)); }
int leave_cuMemcpyAsync(struct pt_regs *ctx) { return ended(ctx, CUMEMCPYASYNC); }
int enter_cuMemcpyHtoD(struct pt_regs *ctx) { return copy(ctx, CUMEMCPYHTOD, H2D, SW_ARG3(ctx)); }
int leave_cuMemcpyHtoD(struct pt_regs *ctx) { return ended(ctx, CUMEMCPYHTOD); }
int enter_cuMemcpyHtoDAsync(struct pt_regs *ctx) { return copy(ctx, CUMEMCPYHTODASYNC, H2D, SW_ARG3(ctx)); }
int leave_cuMemcpyHtoDAsync(struct pt_regs *ctx) { return ended(ctx, CUMEMCPYHTODASYNC); }
int enter_cuMemcpyDtoH(struct pt_regs *ctx) { return copy(ctx, CUMEMCPYDTOH, D2H, SW_ARG3(ctx)); }
int leave_cuMemcpyDtoH(struct pt_regs *ctx) { return ended(ctx, CUMEMCPYDTOH); }
int enter_cuMemcpyDtoHAsync(struct pt_regs *ctx) { return copy(ctx, CUMEMCPYDTOHASYNC, D2H, SW_ARG3(ctx)); }
int leave_cuMemcpyDtoHAsync(struct pt_regs *ctx) { return ended(ctx, CUMEMCPYDTOHASYNC); }
int enter_cuMemcpyDtoD(struct pt_regs *ctx) { return copy(ctx, CUMEMCPYDTOD, D2D, SW_ARG3(ctx)); }
int leave_cuMemcpyDtoD(struct pt_regs *ctx) { return ended(ctx, CUMEMCPYDTOD); }
int enter_cuMemcpyDtoDAsync(struct pt_regs *ctx) { return copy(ctx, CUMEMCPYDTODASYNC, D2D, SW_ARG3(ctx)); }
int leave_cuMemcpyDtoDAsync(struct pt_regs *ctx) { return ended(ctx, CUMEMCPYDTODASYNC); }
int enter_cuMemcpyPeer(struct pt_regs *ctx) { return copy(ctx, CUMEMCPYPEER, PEER, SW_ARG5(ctx)); }
int leave_cuMemcpyPeer(struct pt_regs *ctx) { return ended(ctx, CUMEMCPYPEER); }
int enter_cuMemcpyPeerAsync(struct pt_regs *ctx) { return copy(ctx, CUMEMCPYPEERASYNC, PEER, SW_ARG5(ctx)); }
int leave_cuMemcpyPeerAsync(struct pt_regs *ctx) { return ended(ctx, CUMEMCPYPEERASYNC); }

int enter_cuMemAlloc(struct pt_regs *ctx) { return allocate(ctx, CUMEMALLOC); }
int leave_cuMemAlloc(struct pt_regs *ctx) { return allocated(ctx, CUMEMALLOC, ADDRESS, DEVICE); }
int enter_cuMemAllocAsync(struct pt_regs *ctx) { return allocate(ctx, CUMEMALLOCASYNC); }
int leave_cuMemAllocAsync(struct pt_regs *ctx) { return allocated(ctx, CUMEMALLOCASYNC, ADDRESS, POOL); }
int enter_cuMemAllocManaged(struct pt_regs *ctx) { return allocate(ctx, CUMEMALLOCMANAGED); }
int leave_cuMemAllocManaged(struct pt_regs *ctx) { return allocated(ctx, CUMEMALLOCMANAGED, ADDRESS, MANAGED); }
int enter_cuMemHostAlloc(struct pt_regs *ctx) { return allocate(ctx, CUMEMHOSTALLOC); }
int leave_cuMemHostAlloc(struct pt_regs *ctx) { return allocated(ctx, CUMEMHOSTALLOC, ADDRESS, HOST); }
int enter_cuMemCreate(struct pt_regs *ctx) { return allocate(ctx, CUMEMCREATE); }
int leave_cuMemCreate(struct pt_regs *ctx) { return allocated(ctx, CUMEMCREATE, HANDLE, VMM); }

int enter_cuMemFree(struct pt_regs *ctx) { return release(ctx, CUMEMFREE, ADDRESS); }
int leave_cuMemFree(struct pt_regs *ctx) { return ended(ctx, CUMEMFREE); }
int enter_cuMemFreeAsync(struct pt_regs *ctx) { return release(ctx, CUMEMFREEASYNC, ADDRESS); }
int leave_cuMemFreeAsync(struct pt_regs *ctx) { return ended(ctx, CUMEMFREEASYNC); }
int enter_cuMemFreeHost(struct pt_regs *ctx) { return release(ctx, CUMEMFREEHOST, ADDRESS); }
int leave_cuMemFreeHost(struct pt_regs *ctx) { return ended(ctx, CUMEMFREEHOST); }
int enter_cuMemRelease(struct pt_regs *ctx) { return release(ctx, CUMEMRELEASE, HANDLE); }
int leave_cuMemRelease(struct pt_regs *ctx) { return ended(ctx, CUMEMRELEASE); }

int enter_cuLaunchKernel(struct pt_regs *ctx) { return launch(ctx, CULAUNCHKERNEL); }
int enter_cuLaunchKernelEx(struct pt_regs *ctx) { return launch(ctx, CULAUNCHKERNELEX); }
int enter_cuLaunchCooperativeKernel(struct pt_regs *ctx) { return launch(ctx, CULAUNCHCOOPERATIVEKERNEL); }

int enter_cuGraphLaunch(struct pt_regs *ctx) { return call_enter(ctx, SLOT(CUGRAPHLAUNCH, 0)); }
int leave_cuGraphLaunch(struct pt_regs *ctx) { return ended(ctx, CUGRAPHLAUNCH); }

/* On the raw tracepoint sched_process_exec: another program runs in this process now, and all of
 * CUDA's state is gone. A comparison for every exec of a process that never called CUDA. */
int on_exec(void *ctx)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (sw_lookup(call_processes, &tgid))
		sw_delete(call_processes, &tgid);
	return 0;
}
