/* Intervals in which something of a process runs, and their sums. */

static inline void spend(struct clock_key *clock, u64 op, u64 ns)
{
	struct spent_key key = {};
	struct spent zero = {};
	struct spent *total;

	key.owner = clock->owner;
	key.kind = clock->kind;
	key.op = op;
	sw_insert(spent, &key, &zero);
	total = sw_lookup(spent, &key);
	if (!total) {
		sw_count(sw_lost, LOST_TOTALS);
		return;
	}
	__sync_fetch_and_add(&total->ns, ns);
	__sync_fetch_and_add(&total->count, 1);
}

/* How many run; `change` is 1 or -1. */
static inline s64 step_running(u64 owner, u32 kind, s64 change)
{
	struct clock_key key = {};
	s64 zero = 0;
	s64 *count;

	key.owner = owner;
	key.kind = kind;
	if (change > 0)
		sw_insert(running, &key, &zero);
	count = sw_lookup(running, &key);
	if (!count)
		return 0;
	__sync_fetch_and_add(count, change);
	/* A start that was not seen. */
	if (*count < 0)
		*count = 0;
	return *count;
}

static inline s64 read_running(u64 owner, u32 kind)
{
	struct clock_key key = {};
	s64 *count;

	key.owner = owner;
	key.kind = kind;
	count = sw_lookup(running, &key);
	return count ? *count : 0;
}

static inline void begin(u64 owner, u32 kind, u64 op, u64 now)
{
	struct clock_key key = {};
	struct interval fresh = {};

	key.owner = owner;
	key.kind = kind;
	fresh.since = now;
	fresh.op = op;
	/* Open already: fine. */
	sw_insert(intervals, &key, &fresh);
}

static inline void end(u64 owner, u32 kind, u64 now)
{
	struct clock_key key = {};
	struct interval *open;
	u64 since, op;

	key.owner = owner;
	key.kind = kind;
	open = sw_lookup(intervals, &key);
	if (!open)
		return;
	since = open->since;
	op = open->op;
	if (sw_delete(intervals, &key))
		return;
	if (now > since)
		spend(&key, op, now - since);
}
