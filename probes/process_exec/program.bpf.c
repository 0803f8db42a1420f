/* Counts exec: one per-CPU addition, no field of the tracepoint is read. */

SW_COUNTERS(1, 1);

int on_exec(void *ctx)
{
	sw_count(sw_produced, 0);
	return 0;
}
