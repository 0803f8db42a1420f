/*
 * Follows MPI: how often and how long a thread is in a call that blocks it, initialisation, errors,
 * aborts. All of it is exported by OpenMPI and MPICH, and what is built from them.
 *
 * Why these functions: each blocks its caller until data came or went, so that its duration is a
 * wait. Those that return at once (MPI_Isend, MPI_Test, ...) are left alone: they may be called
 * millions of times a second, and nobody waits in them. An error is seen where it is handed to the
 * error handler, because a call may leave by a jump, when its result is not known yet.
 *
 * Exits are probed at their instructions: the C++ bindings throw. Kernel 4.18 (calls.h), with a ring
 * buffer 5.8. Needs CAP_SYS_ADMIN.
 */
#include "calls.h"

/* Numbered as BLOCKING of functions.py. */
enum slot {
	CALL_Wait, CALL_Waitall, CALL_Waitany, CALL_Waitsome, CALL_Barrier, CALL_Allreduce,
	CALL_Allgather, CALL_Allgatherv, CALL_Reduce, CALL_Bcast, CALL_Recv, CALL_Send, CALL_Ssend,
	CALL_Sendrecv, CALL_Sendrecv_replace, CALL_Alltoall, CALL_Alltoallv, CALL_Alltoallw,
	CALL_Gather, CALL_Gatherv, CALL_Scatter, CALL_Scatterv, CALL_Reduce_scatter,
	CALL_Reduce_scatter_block, CALL_Scan, CALL_Exscan, CALL_Probe, CALL_Mprobe, CALL_Mrecv,
	INIT_SLOT, ABORT_SLOT, ERROR_SLOT,
};

/* An abort or an error. A handful per process and life; a job that makes an error in a loop is
 * counted all the same. 32 B each, its header included: 8 pages hold 1,000 between two polls. */
struct trouble {
	u64 time;
	u32 tgid;
	u32 slot;
	s64 code;
};
SW_EVENTS(troubles, 8);

#define BLOCKING(call)                                                                          \
	int enter_##call(struct pt_regs *ctx) { return call_enter(ctx, CALL_##call); }          \
	int leave_##call(struct pt_regs *ctx) { return call_leave(ctx, CALL_##call); }          \
	int count_##call(struct pt_regs *ctx) { return call_count(ctx, CALL_##call, 0); }

BLOCKING(Wait)
BLOCKING(Waitall)
BLOCKING(Waitany)
BLOCKING(Waitsome)
BLOCKING(Barrier)
BLOCKING(Allreduce)
BLOCKING(Allgather)
BLOCKING(Allgatherv)
BLOCKING(Reduce)
BLOCKING(Bcast)
BLOCKING(Recv)
BLOCKING(Send)
BLOCKING(Ssend)
BLOCKING(Sendrecv)
BLOCKING(Sendrecv_replace)
BLOCKING(Alltoall)
BLOCKING(Alltoallv)
BLOCKING(Alltoallw)
BLOCKING(Gather)
BLOCKING(Gatherv)
BLOCKING(Scatter)
BLOCKING(Scatterv)
BLOCKING(Reduce_scatter)
BLOCKING(Reduce_scatter_block)
BLOCKING(Scan)
BLOCKING(Exscan)
BLOCKING(Probe)
BLOCKING(Mprobe)
BLOCKING(Mrecv)

int enter_init(struct pt_regs *ctx)
{
	return call_enter(ctx, INIT_SLOT);
}

int leave_init(struct pt_regs *ctx)
{
	return call_leave(ctx, INIT_SLOT);
}

int count_init(struct pt_regs *ctx)
{
	return call_count(ctx, INIT_SLOT, 0);
}

static __always_inline int tell(struct pt_regs *ctx, u32 slot, s64 code)
{
	struct trouble trouble = {};

	call_count(ctx, slot, 0);
	sw_count(sw_produced, SW_CALL_SLOW);
	trouble.time = bpf_ktime_get_ns();
	trouble.tgid = bpf_get_current_pid_tgid() >> 32;
	trouble.slot = slot;
	trouble.code = code;
	if (sw_output(troubles, ctx, &trouble))
		sw_count(sw_lost, SW_CALL_RING_FULL);
	return 0;
}

/* MPI_Abort(comm, code) */
int enter_abort(struct pt_regs *ctx)
{
	return tell(ctx, ABORT_SLOT, (s32)SW_ARG2(ctx));
}

/* ompi_errhandler_invoke(handler, object, type, code, message) */
int enter_ompi_error(struct pt_regs *ctx)
{
	return tell(ctx, ERROR_SLOT, (s32)SW_ARG4(ctx));
}

/* ompi_errhandler_request_invoke(count, requests, message): the code is in a request. */
int enter_ompi_request_error(struct pt_regs *ctx)
{
	return tell(ctx, ERROR_SLOT, -1);
}

/* MPIR_Err_return_*(object, function, code): the lower seven bits are the class. */
int enter_mpich_error(struct pt_regs *ctx)
{
	return tell(ctx, ERROR_SLOT, SW_ARG3(ctx) & 0x7f);
}
