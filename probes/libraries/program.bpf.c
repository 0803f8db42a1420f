/*
 * Tells which processes may have mapped a new library.
 *
 * on_link: the dynamic linker calls _dl_debug_state, an empty function kept for debuggers, before
 * and after it maps or unmaps libraries (glibc elf/rtld.c, elf/dl-open.c and elf/dl-close.c, musl
 * ldso/dynlink.c): twice per exec, dlopen and dlclose. on_exec: a process that may use a linker never
 * seen before, as a new container's is, or none. on_fork: a child of a process that maps a watched
 * library maps it too and touches no linker. Each writes 12 bytes; the reader looks a process up once
 * per drain.
 *
 * Why these hooks: sys_enter_mmap would tell the same and slows every system call by a quarter. The
 * end of a process is heard of through a pidfd, which costs nobody anything, not from
 * sched_process_exit. on_fork runs for every fork and new thread of the node, and is one lookup for
 * those whose parent is not watched (see README.md for what that costs).
 *
 * Kernel 4.17, with a ring buffer 5.8 (perf buffers before). Needs CAP_SYS_ADMIN for the uprobes; the
 * exec tracepoint alone CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before 5.8), on_fork a readable tracefs.
 */

/* Processes that map a watched library: 64 on a node of 8 GPUs with their workers, so 8,192 are far
 * above. 16 B each. What does not fit is not told of when it forks: such a child is known from its
 * first hit. */
SW_HASH(watched, u32, u32, 8192);

/* 24 bytes a record, its header included: 32 pages hold 5,400 hits between two drains half a second
 * apart. What does not fit is counted, and the reader answers it with a scan of /proc. */
SW_EVENTS(touched, 32);
SW_COUNTERS(1, 1);

enum kind { LINKED, EXECUTED, FORKED };

struct touch {
	u32 kind;
	u32 pid;
	u32 parent; /* of FORKED: the process that forked. The pid may be a new thread's */
};

int on_link(struct pt_regs *ctx)
{
	struct touch touch = {};

	touch.kind = LINKED;
	touch.pid = bpf_get_current_pid_tgid() >> 32;
	sw_count(sw_produced, 0);
	if (sw_output(touched, ctx, &touch))
		sw_count(sw_lost, 0);
	return 0;
}

int on_exec(void *ctx)
{
	struct touch touch = {};

	touch.kind = EXECUTED;
	touch.pid = bpf_get_current_pid_tgid() >> 32;
	sw_count(sw_produced, 0);
	if (sw_output(touched, ctx, &touch))
		sw_count(sw_lost, 0);
	return 0;
}

#ifdef FORK_CHILD_PID_OFFSET
int on_fork(void *ctx)
{
	struct touch touch = {};
	u32 parent = bpf_get_current_pid_tgid() >> 32;

	if (!sw_lookup(watched, &parent))
		return 0;
	sw_count(sw_produced, 0);
	touch.kind = FORKED;
	touch.parent = parent;
	sw_read_kernel(&touch.pid, 4, ctx + FORK_CHILD_PID_OFFSET);
	if (sw_output(touched, ctx, &touch))
		sw_count(sw_lost, 0);
	return 0;
}
#endif
