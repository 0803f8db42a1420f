/*
 * Tells which processes may have mapped a new library.
 *
 * on_link: the dynamic linker calls _dl_debug_state, an empty function kept for debuggers, before
 * and after it maps libraries (glibc elf/rtld.c and elf/dl-open.c, musl ldso/dynlink.c): twice per
 * exec and twice per dlopen. on_exec: a process that may use a linker never seen before, as a new
 * container's is. Both write 4 bytes; the reader looks each process up once per drain.
 *
 * Why these hooks: sys_enter_mmap would tell the same and slows every system call by a quarter.
 * Kernel 4.17, with a ring buffer 5.8 (perf buffers before). Needs CAP_SYS_ADMIN for the uprobes; the
 * tracepoint alone CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before 5.8).
 */

/* 16 bytes a record, its header included: 32 pages hold 8,192 hits between two drains half a second
 * apart. What does not fit is counted, and the reader answers it with a scan of /proc. */
SW_EVENTS(touched, 32);
SW_COUNTERS(1, 1);

int on_link(struct pt_regs *ctx)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	sw_count(sw_produced, 0);
	if (sw_output(touched, ctx, &tgid))
		sw_count(sw_lost, 0);
	return 0;
}

int on_exec(void *ctx)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	sw_count(sw_produced, 0);
	if (sw_output(touched, ctx, &tgid))
		sw_count(sw_lost, 0);
	return 0;
}
