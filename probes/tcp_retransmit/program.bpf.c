/*
 * Counts retransmits by socket and owner, connects, failed connects and resets by owner, and sends
 * one record for each that is worth a look.
 *
 * The process that runs when a retransmit fires is a stranger (soft interrupt, timer), so the
 * owner comes from the socket's address: learnt when a process connects or sends, and
 * forgotten when the socket closes. Addresses are read from the 16-byte fields alone: for IPv4
 * the kernel fills them with the mapped form (::ffff:a.b.c.d), on every version.
 *
 * Why these hooks: tcp_retransmit_skb is where the kernel itself counts; inet_sock_set_state tells
 * who connects, when it is connected and when a socket ends; sock_send_length (6.3) who uses an
 * accepted one, or one that was handed on; tcp_receive_reset and tcp_send_reset (4.16) are where
 * resets are handled; inet_sk_error_report (5.15) says why a connect failed; tcp_cong_state_set (6.0)
 * tells a tail-loss probe from a loss; sched_process_exit keeps a pid that is used again apart from
 * the one before. All but the first are optional. Kernel 4.17.
 * Needs CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before 5.8), and CAP_DAC_READ_SEARCH or root for the
 * format files.
 *
 * Limits, each settable and its failures counted in sw_lost: owners, one per open TCP socket, twice
 * the local ports that Linux gives to a destination; processes, those that use TCP; flows, sockets
 * with a retransmit within three flushes; connecting, sockets between SYN and its answer, as many as
 * a listening socket's backlog and more; unexplained, connects that ended within about a flush and
 * of which nobody has said why yet; closed_flows, owners of sockets that closed within about half a
 * second, the oldest forgotten first; recovering, sockets that repair a loss at this moment; tallies,
 * 30 a process at most, of those that connected or were reset within three flushes; records, 72 bytes
 * each in the ring, between two polls. probes/tcp_retransmit/limits.py has the numbers.
 *
 * Defines: SKB_*, STATE_*, SEND_*, RESET_*, SENT_RESET_*, ERROR_*, CONGESTION_* offsets from the
 * format files; OWNERS_LIMIT, PROCESSES_LIMIT, FLOWS_LIMIT, CONNECTING_LIMIT,
 * UNEXPLAINED_LIMIT, CLOSED_LIMIT, RECOVERING_LIMIT, TALLIES_LIMIT, RING_PAGES.
 */

#define TCP 6
#define ESTABLISHED 1
#define SYN_SENT 2
#define CLOSE 7
/* enum tcp_ca_state of include/uapi/linux/tcp.h: from here on lost data is being sent again. */
#define CA_RECOVERY 3

/* An error and the end of the socket that it is about are one after the other, on one CPU. */
#define AT_ONCE_NS 10000000

/* Errors of include/uapi/asm-generic/errno.h. */
#define E_UNREACHABLE_NETWORK 101
#define E_TIMED_OUT 110
#define E_REFUSED 111
#define E_HOST_DOWN 112
#define E_UNREACHABLE_HOST 113

/*
 * Streams of sw_produced, reasons of sw_lost: the order of kernel.py. RUNS is no stream: how often
 * on_retransmit ran, to be held against HITS.
 */
enum { HITS, EVENTS, CONNECTIONS, RUNS };
enum {
	FLOWS_FULL, RING_FULL, OWNERS_FULL, PROCESSES_FULL, TALLIES_FULL, CONNECTING_FULL,
	UNEXPLAINED_FULL, RECOVERING_FULL, CLOSED_FULL, REASONS
};

/* What a tally counts, the order of tallies.py: 28 buckets of connect times, then these. */
#define BUCKETS 28
enum { REFUSED = 32, TIMED_OUT, UNREACHABLE, NO_PORT, OTHER, RESET_RECEIVED = 48, RESET_SENT };
/* Kinds of records, the order of records.py. */
enum { RETRANSMIT, LOSS_PROBE, CONNECT_FAILED, WAS_RESET };

/* since_ns: when this process was first seen to use TCP; its pid may be used again later. */
struct owner {
	u64 since_ns;
	u32 pid;
	u32 pad;
};

struct process {
	u64 since_ns;
	u64 newest_ns;
};

struct flow {
	u64 socket;
	u64 since_ns;
	u8 source[16];
	u8 destination[16];
	u32 owner;
	u16 source_port;
	u16 destination_port;
};

struct hits {
	u64 all;
	u64 probes;
};

struct record {
	u64 monotonic_ns;
	u32 kind;
	u32 detail;
	struct flow flow;
};

struct connecting {
	u64 began_ns;
	struct owner owner;
	u64 refused;
};

struct endpoints {
	u8 source[16];
	u8 destination[16];
	u16 source_port;
	u16 destination_port;
	u32 pad;
};

struct failed {
	u64 at_ns;
	u64 socket;
	struct owner owner;
};

struct told {
	struct endpoints where;
	s64 error;
	u64 at_ns;
};

struct closed {
	u64 socket;
	struct owner owner;
};

struct tally_key {
	struct owner owner;
	u64 what;
};

struct tally {
	u64 count;
	u64 sum_ns;
};

SW_COUNTERS(4, 9);
SW_HASH(owners, u64, struct owner, OWNERS_LIMIT);
SW_HASH(processes, u32, struct process, PROCESSES_LIMIT);
SW_HASH(flows, struct flow, struct hits, FLOWS_LIMIT);
SW_HASH(connecting, u64, struct connecting, CONNECTING_LIMIT);
SW_HASH(unexplained, struct endpoints, struct failed, UNEXPLAINED_LIMIT);
SW_LRU_HASH(closed_flows, struct endpoints, struct owner, CLOSED_LIMIT);
SW_HASH(recovering, u64, u32, RECOVERING_LIMIT);
SW_HASH(tallies, struct tally_key, struct tally, TALLIES_LIMIT);
/* What this CPU did last: one slot each, because what follows comes right after it, here. */
SW_PERCPU_ARRAY(last_closed, struct closed, 1);
SW_PERCPU_ARRAY(last_told, struct told, 1);
SW_EVENTS(records, RING_PAGES);

/* The present process, as an owner. */
static inline void myself(struct owner *owner)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	u64 now = bpf_ktime_get_ns();
	struct process fresh = { .since_ns = now, .newest_ns = now };
	struct process *known = sw_lookup(processes, &pid);

	owner->pid = pid;
	owner->since_ns = now;
	if (!known && sw_insert(processes, &pid, &fresh)) {
		/* Full, or another thread was first. */
		known = sw_lookup(processes, &pid);
		if (!known)
			sw_count(sw_lost, PROCESSES_FULL);
	}
	if (known) {
		owner->since_ns = known->since_ns;
		known->newest_ns = now;
	}
}

static inline void learn(u64 socket, struct owner *owner)
{
	myself(owner);
	if (sw_update(owners, &socket, owner))
		sw_count(sw_lost, OWNERS_FULL);
}

static inline void count_hit(struct flow *flow, u64 probes)
{
	struct hits one = { .all = 1, .probes = probes };
	struct hits *hits = sw_lookup(flows, flow);

	if (!hits) {
		if (!sw_insert(flows, flow, &one))
			return;
		/* Full, or another CPU was first. */
		hits = sw_lookup(flows, flow);
	}
	if (hits) {
		__sync_fetch_and_add(&hits->all, 1);
		__sync_fetch_and_add(&hits->probes, probes);
	} else {
		sw_count(sw_lost, FLOWS_FULL);
	}
}

/* One connect, failure or reset of an owner, which is all 0 when nobody is known. */
static inline void count(struct owner *owner, u64 what, u64 ns)
{
	struct tally_key key = {};
	struct tally one = { .count = 1, .sum_ns = ns };
	struct tally *tally;

	key.owner.since_ns = owner->since_ns;
	key.owner.pid = owner->pid;
	key.what = what;
	sw_count(sw_produced, CONNECTIONS);
	tally = sw_lookup(tallies, &key);
	if (!tally) {
		if (!sw_insert(tallies, &key, &one))
			return;
		tally = sw_lookup(tallies, &key);
	}
	if (tally) {
		__sync_fetch_and_add(&tally->count, 1);
		__sync_fetch_and_add(&tally->sum_ns, ns);
	} else {
		sw_count(sw_lost, TALLIES_FULL);
	}
}

/* Bucket k holds up to 2^(k - 20) s, the last one all that is longer. No loop: 5.2 and older. */
static inline u64 bucket_of(u64 ns)
{
	u64 left = (ns * 1048576) / 1000000000;
	u64 bucket = left ? 1 : 0;

	if (ns > 68000000000ULL)
		return BUCKETS - 1;
	if (left >> 16) { left >>= 16; bucket += 16; }
	if (left >> 8) { left >>= 8; bucket += 8; }
	if (left >> 4) { left >>= 4; bucket += 4; }
	if (left >> 2) { left >>= 2; bucket += 2; }
	if (left >> 1) bucket += 1;
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static inline void name_owner(struct flow *flow, struct owner *owner)
{
	flow->owner = owner->pid;
	flow->since_ns = owner->since_ns;
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
	struct owner *owner;
	u64 probes = 0;

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
		name_owner(&record.flow, owner);
#ifdef CONGESTION_SKADDR_OFFSET
	/* Whoever repairs a loss has said so before; only a loss probe is sent without. */
	if (!sw_lookup(recovering, &record.flow.socket)) {
		probes = 1;
		record.kind = LOSS_PROBE;
	}
#endif
	count_hit(&record.flow, probes);

	record.monotonic_ns = bpf_ktime_get_ns();
	if (sw_output(records, ctx, &record))
		sw_count(sw_lost, RING_FULL);
	return 0;
}

#ifdef CONGESTION_SKADDR_OFFSET
int on_congestion(void *ctx)
{
	u64 socket = *(u64 *)(ctx + CONGESTION_SKADDR_OFFSET);
	u32 state = *(u8 *)(ctx + CONGESTION_CONG_STATE_OFFSET);

	if (state < CA_RECOVERY)
		sw_delete(recovering, &socket);
	else if (sw_update(recovering, &socket, &state))
		sw_count(sw_lost, RECOVERING_FULL);
	return 0;
}
#endif

static inline void report_failure(void *ctx, struct endpoints *where, struct owner *owner,
				  u64 socket, u32 what)
{
	struct record record = {};

	count(owner, what, 0);
	record.monotonic_ns = bpf_ktime_get_ns();
	record.kind = CONNECT_FAILED;
	record.detail = what;
	record.flow.socket = socket;
	__builtin_memcpy(record.flow.source, where->source, 16);
	__builtin_memcpy(record.flow.destination, where->destination, 16);
	record.flow.source_port = where->source_port;
	record.flow.destination_port = where->destination_port;
	name_owner(&record.flow, owner);
	sw_count(sw_produced, EVENTS);
	if (sw_output(records, ctx, &record))
		sw_count(sw_lost, RING_FULL);
}

static inline u32 reason_of(s64 error)
{
	if (error == E_REFUSED)
		return REFUSED;
	if (error == E_TIMED_OUT)
		return TIMED_OUT;
	if (error == E_UNREACHABLE_NETWORK || error == E_UNREACHABLE_HOST || error == E_HOST_DOWN)
		return UNREACHABLE;
	return OTHER;
}

static inline int same_words(const void *one, const void *other)
{
	const u64 *a = one, *b = other;

	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4];
}

#ifdef STATE_SKADDR_OFFSET
static inline void give_up(void *ctx, u64 socket, struct connecting *began)
{
	struct endpoints where = {};
	struct owner owner = {};
	struct failed failed = {};
	u32 slot = 0;
	struct told *told;

	owner.since_ns = began->owner.since_ns;
	owner.pid = began->owner.pid;
	sw_read_kernel(&where.source, 16, ctx + STATE_SADDR_V6_OFFSET);
	sw_read_kernel(&where.destination, 16, ctx + STATE_DADDR_V6_OFFSET);
	sw_read_kernel(&where.source_port, 2, ctx + STATE_SPORT_OFFSET);
	sw_read_kernel(&where.destination_port, 2, ctx + STATE_DPORT_OFFSET);
	if (began->refused) {
		report_failure(ctx, &where, &owner, socket, REFUSED);
		return;
	}
	if (!where.source_port) {
		report_failure(ctx, &where, &owner, socket, NO_PORT);
		return;
	}
#ifdef ERROR_ERROR_OFFSET
	/* Up to 6.9 the error is told before the socket closes, then after it. */
	told = sw_lookup(last_told, &slot);
	failed.at_ns = bpf_ktime_get_ns();
	if (told && failed.at_ns - told->at_ns < AT_ONCE_NS && same_words(&told->where, &where)) {
		report_failure(ctx, &where, &owner, socket, reason_of(told->error));
		told->at_ns = 0;
		return;
	}
	failed.socket = socket;
	failed.owner.since_ns = owner.since_ns;
	failed.owner.pid = owner.pid;
	if (sw_update(unexplained, &where, &failed))
		sw_count(sw_lost, UNEXPLAINED_FULL);
#else
	report_failure(ctx, &where, &owner, socket, OTHER);
#endif
}

/* Its last figures follow by sock_diag, which no longer knows whose it was. */
static inline void remember_closed(void *ctx, struct owner *owner)
{
	struct endpoints where = {};
	struct owner last = {};

	last.since_ns = owner->since_ns;
	last.pid = owner->pid;
	sw_read_kernel(&where.source, 16, ctx + STATE_SADDR_V6_OFFSET);
	sw_read_kernel(&where.destination, 16, ctx + STATE_DADDR_V6_OFFSET);
	sw_read_kernel(&where.source_port, 2, ctx + STATE_SPORT_OFFSET);
	sw_read_kernel(&where.destination_port, 2, ctx + STATE_DPORT_OFFSET);
	if (sw_update(closed_flows, &where, &last))
		sw_count(sw_lost, CLOSED_FULL);
}

int on_state(void *ctx)
{
	u64 socket = 0;
	int before = 0, after = 0;
	/* One byte before 5.6, two since, as MPTCP (262) needs. Little-endian machines only. */
	u16 protocol = 0;
	struct connecting *began;
	struct owner *owner;
	struct closed *closed;
	u32 slot = 0;

	sw_read_kernel(&protocol, STATE_PROTOCOL_SIZE, ctx + STATE_PROTOCOL_OFFSET);
	if (protocol != TCP)
		return 0;
	sw_read_kernel(&socket, 8, ctx + STATE_SKADDR_OFFSET);
	sw_read_kernel(&before, 4, ctx + STATE_OLDSTATE_OFFSET);
	sw_read_kernel(&after, 4, ctx + STATE_NEWSTATE_OFFSET);
	if (before == CLOSE && after == SYN_SENT) {
		struct connecting fresh = {};

		learn(socket, &fresh.owner);
		fresh.began_ns = bpf_ktime_get_ns();
		if (sw_update(connecting, &socket, &fresh)) {
			sw_count(sw_produced, CONNECTIONS);
			sw_count(sw_lost, CONNECTING_FULL);
		}
		return 0;
	}
	if (after != CLOSE && after != ESTABLISHED)
		return 0;
	began = sw_lookup(connecting, &socket);
	if (began) {
		if (after == CLOSE) {
			give_up(ctx, socket, began);
		} else {
			u64 ns = bpf_ktime_get_ns() - began->began_ns;

			count(&began->owner, bucket_of(ns), ns);
		}
		sw_delete(connecting, &socket);
	}
	if (after == ESTABLISHED)
		return 0;
	/* A socket that is closed with data unread sends its reset after this. */
	owner = sw_lookup(owners, &socket);
	closed = sw_lookup(last_closed, &slot);
	if (owner && closed) {
		closed->socket = socket;
		closed->owner.since_ns = owner->since_ns;
		closed->owner.pid = owner->pid;
		if (before != SYN_SENT)
			remember_closed(ctx, &closed->owner);
	}
	sw_delete(owners, &socket);
#ifdef CONGESTION_SKADDR_OFFSET
	sw_delete(recovering, &socket);
#endif
	return 0;
}
#endif

#ifdef ERROR_ERROR_OFFSET
/* An error that a process will hear of; of interest when it is the end of a connect. */
int on_error(void *ctx)
{
	struct endpoints where = {};
	struct failed *failed;
	struct told *told;
	u16 protocol = 0;
	int error = 0;
	u32 slot = 0;

	sw_read_kernel(&protocol, 2, ctx + ERROR_PROTOCOL_OFFSET);
	if (protocol != TCP)
		return 0;
	sw_read_kernel(&error, 4, ctx + ERROR_ERROR_OFFSET);
	/* A message for the error queue alone (IP_RECVERR): the connect goes on. */
	if (!error)
		return 0;
	sw_read_kernel(&where.source, 16, ctx + ERROR_SADDR_V6_OFFSET);
	sw_read_kernel(&where.destination, 16, ctx + ERROR_DADDR_V6_OFFSET);
	sw_read_kernel(&where.source_port, 2, ctx + ERROR_SPORT_OFFSET);
	sw_read_kernel(&where.destination_port, 2, ctx + ERROR_DPORT_OFFSET);
	failed = sw_lookup(unexplained, &where);
	if (failed) {
		struct owner owner = {};

		owner.since_ns = failed->owner.since_ns;
		owner.pid = failed->owner.pid;
		report_failure(ctx, &where, &owner, failed->socket, reason_of(error));
		sw_delete(unexplained, &where);
		return 0;
	}
	told = sw_lookup(last_told, &slot);
	if (told) {
		told->where = where;
		told->error = error;
		told->at_ns = bpf_ktime_get_ns();
	}
	return 0;
}
#endif

static inline void report_reset(void *ctx, struct flow *flow, u32 what)
{
	struct record record = {};
	struct owner owner = {};

	owner.since_ns = flow->since_ns;
	owner.pid = flow->owner;
	count(&owner, what, 0);
	if (!owner.pid)
		return;
	record.monotonic_ns = bpf_ktime_get_ns();
	record.kind = WAS_RESET;
	record.detail = what;
	record.flow = *flow;
	sw_count(sw_produced, EVENTS);
	if (sw_output(records, ctx, &record))
		sw_count(sw_lost, RING_FULL);
}

#ifdef RESET_SKADDR_OFFSET
int on_receive_reset(void *ctx)
{
	struct flow flow = {};
	struct connecting *began;
	struct owner *owner;

	flow.socket = *(u64 *)(ctx + RESET_SKADDR_OFFSET);
	began = sw_lookup(connecting, &flow.socket);
	if (began) {
		began->refused = 1;
		return 0;
	}
	owner = sw_lookup(owners, &flow.socket);
	if (owner)
		name_owner(&flow, owner);
	sw_read_kernel(&flow.source, 16, ctx + RESET_SADDR_V6_OFFSET);
	sw_read_kernel(&flow.destination, 16, ctx + RESET_DADDR_V6_OFFSET);
	sw_read_kernel(&flow.source_port, 2, ctx + RESET_SPORT_OFFSET);
	sw_read_kernel(&flow.destination_port, 2, ctx + RESET_DPORT_OFFSET);
	report_reset(ctx, &flow, RESET_RECEIVED);
	return 0;
}
#endif

#ifdef SENT_RESET_SKADDR_OFFSET
/*
 * Where there is no socket (a port nobody listens on), or its owner is not known: the node's. A
 * socket that is closed already is reset by the process that closes it (data unread, SO_LINGER).
 */
int on_send_reset(void *ctx)
{
	u64 socket = *(u64 *)(ctx + SENT_RESET_SKADDR_OFFSET);
	struct owner nobody = {}, me = {};
	struct owner *owner = 0;
	struct closed *closed;
	u32 slot = 0;

	if (socket) {
		owner = sw_lookup(owners, &socket);
		closed = sw_lookup(last_closed, &slot);
		if (!owner && closed && closed->socket == socket)
			owner = &closed->owner;
		if (!owner && *(int *)(ctx + SENT_RESET_STATE_OFFSET) == CLOSE) {
			myself(&me);
			owner = &me;
		}
	}
	count(owner ? owner : &nobody, RESET_SENT, 0);
	return 0;
}
#endif

#ifdef SEND_SK_OFFSET
/* Runs on every send of the machine: a load and a lookup, then out. The last to send owns it. */
int on_send(void *ctx)
{
	struct owner owner = {};
	struct owner *known;
	u64 socket;

	if (*(u16 *)(ctx + SEND_PROTOCOL_OFFSET) != TCP)
		return 0;
	socket = *(u64 *)(ctx + SEND_SK_OFFSET);
	known = sw_lookup(owners, &socket);
	if (known && known->pid == bpf_get_current_pid_tgid() >> 32)
		return 0;
	/* A socket that has closed answers with an error, which teaches nothing. */
	if (*(int *)(ctx + SEND_RET_OFFSET) <= 0)
		return 0;
	learn(socket, &owner);
	return 0;
}
#endif

/* The pid of a process that ends may be used again: what comes then is another's. */
int on_exit(void *ctx)
{
	u64 both = bpf_get_current_pid_tgid();
	u32 pid = both >> 32;

	if (pid == (u32)both)
		sw_delete(processes, &pid);
	return 0;
}
