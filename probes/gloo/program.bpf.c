/*
 * Follows Gloo, inside libtorch_cpu.so or as libgloo.so: waits for data, full-mesh connects, failed
 * collectives, and the rank that each group was told.
 *
 * waitRecv and waitSend run on the threads that carry out collectives, beside computing: what they
 * take is communication in flight, not a stalled step.
 *
 * Why these functions: they are exported, and called a few times a collective at most. Their exits
 * are probed at their instructions: all of them throw when a peer is lost, and no exception can
 * unwind through a return probe. Kernel 4.18 (calls.h), with a ring buffer 5.8. Needs CAP_SYS_ADMIN.
 */
#include "calls.h"

enum slot { WAIT_RECV, WAIT_SEND, CONNECT, FAILURE };

/* A group was made: `rank` of `size`. A few per process and start. 32 B each, its header included, so
 * 4 pages hold 500 between two polls; what does not fit is lost, reason ring_full. */
struct group {
	u64 time;
	u32 tgid;
	u32 rank;
	u32 size;
	u32 zero;
};
SW_EVENTS(groups, 4);

int enter_recv(struct pt_regs *ctx)
{
	return call_enter(ctx, WAIT_RECV);
}

int leave_recv(struct pt_regs *ctx)
{
	return call_leave(ctx, WAIT_RECV);
}

int count_recv(struct pt_regs *ctx)
{
	return call_count(ctx, WAIT_RECV, 0);
}

int enter_send(struct pt_regs *ctx)
{
	return call_enter(ctx, WAIT_SEND);
}

int leave_send(struct pt_regs *ctx)
{
	return call_leave(ctx, WAIT_SEND);
}

int count_send(struct pt_regs *ctx)
{
	return call_count(ctx, WAIT_SEND, 0);
}

int enter_connect(struct pt_regs *ctx)
{
	return call_enter(ctx, CONNECT);
}

int leave_connect(struct pt_regs *ctx)
{
	return call_leave(ctx, CONNECT);
}

int count_connect(struct pt_regs *ctx)
{
	return call_count(ctx, CONNECT, 0);
}

int count_failure(struct pt_regs *ctx)
{
	return call_count(ctx, FAILURE, 0);
}

/* gloo::Context::Context(this, int rank, int size, ...), which every other kind of context runs. */
int enter_group(struct pt_regs *ctx)
{
	struct group group = {};

	sw_count(sw_produced, SW_CALL_SLOW);
	group.time = bpf_ktime_get_ns();
	group.tgid = bpf_get_current_pid_tgid() >> 32;
	group.rank = SW_ARG2(ctx);
	group.size = SW_ARG3(ctx);
	if (sw_output(groups, ctx, &group))
		sw_count(sw_lost, SW_CALL_RING_FULL);
	return 0;
}
