/*
 * Counts exec: one per-CPU addition, no field of the tracepoint is read.
 *
 * Why this hook: sched_process_exec fires once per program that was really started, whichever system
 * call asked for it; counting execve would count the failed ones too. Kernel 4.17 (raw tracepoints,
 * which need no tracefs). Needs CAP_BPF and CAP_PERFMON, before 5.8 CAP_SYS_ADMIN. The counters are
 * all there is, so nothing can be full.
 */

SW_COUNTERS(1, 1);

int on_exec(void *ctx)
{
	sw_count(sw_produced, 0);
	return 0;
}
