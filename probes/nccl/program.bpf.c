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

#include "records.h"
#include "processes.h"
#include "events.h"
#include "clocks.h"
#include "collectives.h"
#include "initialisations.h"
#include "groups.h"
#include "communicators.h"
#include "waits.h"
#include "profiler.h"

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
