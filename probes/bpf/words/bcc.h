/*
 * Map declarations of our programs, spelled for bcc; calls on maps are respelled by
 * probes/bpf/words/bcc.py, because bcc refuses them inside macros. A loader of precompiled (CO-RE)
 * objects supplies the same words as plain libbpf macros, and no program changes.
 */

#define SW_HASH(name, key_type, value_type, entries) \
	BPF_TABLE("hash", key_type, value_type, name, entries)
#define SW_PERCPU_HASH(name, key_type, value_type, entries) \
	BPF_TABLE("percpu_hash", key_type, value_type, name, entries)
#define SW_ARRAY(name, value_type, entries) BPF_TABLE("array", u32, value_type, name, entries)
#define SW_PERCPU_ARRAY(name, value_type, entries) \
	BPF_TABLE("percpu_array", u32, value_type, name, entries)

/* A ring of `pages` pages; a perf buffer, sized by the reader, where the kernel has no ring. */
#ifdef SW_HAS_RING
#define SW_EVENTS(name, pages) BPF_RINGBUF_OUTPUT(name, pages)
#else
#define SW_EVENTS(name, pages) BPF_PERF_OUTPUT(name)
#endif

/* Copies from the tracepoint's record where its field is not aligned for a direct load. */
#ifdef SW_HAS_PROBE_READ_KERNEL
#define sw_read_kernel(to, size, from) bpf_probe_read_kernel(to, size, from)
#else
#define sw_read_kernel(to, size, from) bpf_probe_read(to, size, from)
#endif

/* Every program has both: events after its filter, by stream, and losses, by reason. */
#define SW_COUNTERS(streams, reasons)               \
	SW_PERCPU_ARRAY(sw_produced, u64, streams); \
	SW_PERCPU_ARRAY(sw_lost, u64, reasons)
