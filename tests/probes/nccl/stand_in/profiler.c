/*
 * A profiler plugin of NCCL, as a user would load one. Handles come from a pool, its functions are
 * static, and version 4's startEvent is made of version 5's.
 *
 *   gcc -O2 -fno-optimize-sibling-calls -shared -fPIC -DVERSION=5 -o libnccl-profiler.so profiler.c
 */
#include <stdint.h>
#include <stddef.h>

enum { POOL = 64 };
static int pool[POOL];
static volatile unsigned next;
static int kernels = 64;

static int initialise(void **context, uint64_t id, int *mask) { *context = pool; *mask = 2 | 4 | kernels; return 0; }
static int initialise_v4(void **context, int *mask) { *context = pool; *mask = 2 | 4 | kernels; return 0; }
static int __attribute__((noinline)) start(void *context, void **handle, const uint64_t *descriptor)
{
	/* An unlikely type is not followed. */
	if (!descriptor) { *handle = NULL; return 0; }
	*handle = &pool[__sync_fetch_and_add(&next, 1) % POOL];
	return 0;
}
static int __attribute__((noinline)) start_v4(void *context, void **handle, const uint64_t *descriptor)
{
	int result = start(context, handle, descriptor);

	return result + 0 * (next == 0);
}
static int __attribute__((noinline)) stop(void *handle) { *(volatile int *)handle += 1; return 0; }
static int record(void *handle, int state, void *arguments) { *(volatile int *)handle += 0; return 0; }
static int finalise(void *context) { return 0; }

#ifndef SHIFT
#define SHIFT 0 /* of the pointer to stop: no instruction begins a byte on */
#endif
#define STOP ((int (*)())((char *)stop + SHIFT))
struct table { const char *name; int (*init)(), (*start)(), (*stop)(), (*record)(), (*finalize)(); };
#define JOIN(a, b) a##b
#define TABLE(n) JOIN(ncclProfiler_v, n)
const struct table TABLE(VERSION) = {"stand-in", VERSION >= 5 ? (int (*)())initialise : (int (*)())initialise_v4,
	VERSION == 4 ? (int (*)())start_v4 : (int (*)())start, STOP, (int (*)())record, (int (*)())finalise};
