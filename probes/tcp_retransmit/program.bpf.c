/*
 * Counts retransmits by socket and owner, and sends one record for each.
 *
 * The process that runs when a retransmit fires is a stranger (soft interrupt, timer), so the
 * owner comes from the socket's address: learnt when a process connects or sends, and
 * forgotten when the socket closes. Addresses are read from the 16-byte fields alone: for IPv4
 * the kernel fills them with the mapped form (::ffff:a.b.c.d), on every version.
 *
 * Why these hooks: tcp_retransmit_skb is where the kernel itself counts; inet_sock_set_state tells
 * who connects and when a socket ends; sock_send_length (6.3) who uses an accepted one. Kernel 4.17.
 * Needs CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before 5.8), and CAP_DAC_READ_SEARCH or root for the
 * format files.
 *
 * Limits, each settable and its failures counted in sw_lost: owners, one per open TCP socket, twice
 * the local ports that Linux gives to a destination; processes, those that use TCP; flows, sockets
 * with a retransmit within three flushes; records, 64 bytes each in the ring, between two polls.
 * probes/tcp_retransmit/limits.py has the numbers.
 *
 * Defines: SKB_*, STATE_*, SEND_* offsets from the format files; OWNERS_LIMIT,
 * PROCESSES_LIMIT, FLOWS_LIMIT, RING_PAGES.
 */

#define TCP 6
#define SYN_SENT 2
#define CLOSE 7

/*
 * Streams of sw_produced, reasons of sw_lost: the order of kernel.py. RUNS is no stream: how often
 * on_retransmit ran, to be held against HITS.
 */
enum { HITS, EVENTS, RUNS };
enum { FLOWS_FULL, RING_FULL, OWNERS_FULL, PROCESSES_FULL, REASONS };

struct flow {
	u64 socket;
	u8 source[16];
	u8 destination[16];
	u32 owner;
	u16 source_port;
	u16 destination_port;
};

struct record {
	u64 monotonic_ns;
	struct flow flow;
};

SW_COUNTERS(3, 4);
SW_HASH(owners, u64, u32, OWNERS_LIMIT);
SW_HASH(processes, u32, u64, PROCESSES_LIMIT);
SW_HASH(flows, struct flow, u64, FLOWS_LIMIT);
SW_EVENTS(records, RING_PAGES);

static inline void learn(u64 socket)
{
	u32 owner = bpf_get_current_pid_tgid() >> 32;
	u64 now = bpf_ktime_get_ns();

	if (sw_update(owners, &socket, &owner)) {
		sw_count(sw_lost, OWNERS_FULL);
		return;
	}
	if (sw_update(processes, &owner, &now))
		sw_count(sw_lost, PROCESSES_FULL);
}

static inline void count_hit(struct flow *flow)
{
	u64 one = 1;
	u64 *hits = sw_lookup(flows, flow);

	if (!hits) {
		if (!sw_insert(flows, flow, &one))
			return;
		/* Full, or another CPU was first. */
		hits = sw_lookup(flows, flow);
	}
	if (hits)
		__sync_fetch_and_add(hits, 1);
	else
		sw_count(sw_lost, FLOWS_FULL);
}

#ifdef RAW_ERR_OFFSET
/*
 * What is produced, counted apart from what reads it: under load on_retransmit is now and then not
 * run for an event, and the kernel's own count of misses stays at 0. Likely the guard that keeps
 * programs of perf events from nesting on a CPU was taken. A raw tracepoint does not share it.
 */
int on_attempt(void *ctx)
{
#ifdef SKB_ERR_OFFSET
	if (*(int *)(ctx + RAW_ERR_OFFSET))
		return 0;
#endif
	sw_count(sw_produced, HITS);
	sw_count(sw_produced, EVENTS);
	return 0;
}
#endif

int on_retransmit(void *ctx)
{
	struct record record = {};
	u32 *owner;

#ifdef SKB_ERR_OFFSET
	/* Newer kernels also report attempts that failed. */
	int err = 0;
	sw_read_kernel(&err, sizeof(err), ctx + SKB_ERR_OFFSET);
	if (err)
		return 0;
#endif
#ifdef RAW_ERR_OFFSET
	sw_count(sw_produced, RUNS);
#else
	sw_count(sw_produced, HITS);
	sw_count(sw_produced, EVENTS);
#endif
	sw_read_kernel(&record.flow.socket, 8, ctx + SKB_SKADDR_OFFSET);
	sw_read_kernel(&record.flow.source, 16, ctx + SKB_SADDR_V6_OFFSET);
	sw_read_kernel(&record.flow.destination, 16, ctx + SKB_DADDR_V6_OFFSET);
	sw_read_kernel(&record.flow.source_port, 2, ctx + SKB_SPORT_OFFSET);
	sw_read_kernel(&record.flow.destination_port, 2, ctx + SKB_DPORT_OFFSET);
	owner = sw_lookup(owners, &record.flow.socket);
	if (owner)
		record.flow.owner = *owner;
	count_hit(&record.flow);

	record.monotonic_ns = bpf_ktime_get_ns();
	if (sw_output(records, ctx, &record))
		sw_count(sw_lost, RING_FULL);
	return 0;
}

#ifdef STATE_SKADDR_OFFSET
int on_state(void *ctx)
{
	u64 socket = 0;
	int before = 0, after = 0;
	/* One byte before 5.6, two since, as MPTCP (262) needs. Little-endian machines only. */
	u16 protocol = 0;

	sw_read_kernel(&protocol, STATE_PROTOCOL_SIZE, ctx + STATE_PROTOCOL_OFFSET);
	if (protocol != TCP)
		return 0;
	sw_read_kernel(&socket, 8, ctx + STATE_SKADDR_OFFSET);
	sw_read_kernel(&before, 4, ctx + STATE_OLDSTATE_OFFSET);
	sw_read_kernel(&after, 4, ctx + STATE_NEWSTATE_OFFSET);
	if (after == CLOSE)
		sw_delete(owners, &socket);
	else if (before == CLOSE && after == SYN_SENT)
		learn(socket);
	return 0;
}
#endif

#ifdef SEND_SK_OFFSET
/* Runs on every send of the machine: one load and one lookup, then out. */
int on_send(void *ctx)
{
	u64 socket;

	if (*(u16 *)(ctx + SEND_PROTOCOL_OFFSET) != TCP)
		return 0;
	socket = *(u64 *)(ctx + SEND_SK_OFFSET);
	if (sw_lookup(owners, &socket))
		return 0;
	/* A socket that has closed answers with an error, which teaches nothing. */
	if (*(int *)(ctx + SEND_RET_OFFSET) <= 0)
		return 0;
	learn(socket);
	return 0;
}
#endif
