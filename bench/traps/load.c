/*
 * A job that launches, synchronises and reduces at a given rate, knows how often, and works in
 * between: one thread, one core. Every 100 ms it writes down three doubles: the time in seconds of
 * CLOCK_MONOTONIC, the launches so far, and the CPU seconds of its thread so far.
 *
 *   load SECONDS RATE SYNCS COLLECTIVES WORK PATTERN LINGER TRACE
 *
 * RATE: launches a second on average. WORK: rounds of arithmetic beside each. PATTERN: constant;
 * bursty (0.3 s in each 2 s, at times that are drawn); onoff (5 s of 10 s); ramp (from a tenth to
 * nineteen tenths); aligned (the first second of each 5 s, on the clock). LINGER: seconds to live on
 * without a call. Prints its pid, then the launches, synchronises and collectives that it made.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { unsigned x, y, z; } dim3;
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
int cudaStreamSynchronize(void *);
#ifdef WITH_NCCL
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
int ncclCommInitRank(void **, int, const char id[128], int);
#endif

enum { TICKS = 1000 }; /* a second */
static volatile double sink = 1.0;

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* The rate at a time, in launches a second; `at` since the start, `wall` on the clock. */
static double rate_at(const char *pattern, double rate, double seconds, double at, double wall)
{
	static double burst = -1.0;
	static long period = -1;

	switch (pattern[0]) {
	case 'b':
		if ((long)(at / 2) != period) {
			period = (long)(at / 2);
			burst = 2 * period + 1.7 * drand48();
		}
		return at >= burst && at < burst + 0.3 ? rate * 2 / 0.3 : 0;
	case 'o':
		return at - 10 * (long)(at / 10) < 5 ? 2 * rate : 0;
	case 'r':
		return rate * (0.1 + 1.8 * at / seconds);
	case 'a':
		return wall - 5 * (long)(wall / 5) < 1 ? 5 * rate : 0;
	}
	return rate;
}

static void work(long rounds)
{
	double x = sink;

	while (rounds-- > 0)
		x = x * 1.0000001 + 1e-9;
	sink = x;
}

int main(int argc, char **argv)
{
	double seconds, rate, syncs, collectives, at, owed[3] = {0};
	long made[3] = {0}, rounds, tick;
	static char function[1];
	const char *pattern;
	struct timespec next;
	FILE *trace;
	dim3 one = {1, 1, 1};

	if (argc != 9)
		return 2;
	seconds = atof(argv[1]), rate = atof(argv[2]), syncs = atof(argv[3]);
	collectives = atof(argv[4]), rounds = atol(argv[5]), pattern = argv[6];
	trace = fopen(argv[8], "wb");
	if (!trace)
		return 2;
	setvbuf(trace, NULL, _IONBF, 0);
	srand48(getpid());
	printf("%d\n", getpid());
	fflush(stdout);
#ifdef WITH_NCCL
	void *communicator = NULL;
	static char id[128];

	ncclCommInitRank(&communicator, 1, id, 0);
#endif
	/* As a job that reads its data first: time to be found and attached to. */
	sleep(3);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (tick = 0; tick < seconds * TICKS; tick++) {
		at = (double)tick / TICKS;
		owed[0] += rate_at(pattern, rate, seconds, at, now(CLOCK_REALTIME)) / TICKS;
		owed[1] += syncs / TICKS;
		owed[2] += collectives / TICKS;
		for (; made[0] + 1 <= owed[0]; made[0]++) {
			cudaLaunchKernel(function, one, one, NULL, 0, NULL);
			work(rounds);
		}
		for (; made[1] + 1 <= owed[1]; made[1]++)
			cudaStreamSynchronize(NULL);
		for (; made[2] + 1 <= owed[2]; made[2]++) {
#ifdef WITH_NCCL
			ncclAllReduce(function, function, 1, 7, 0, communicator, NULL);
#endif
		}
		if (tick % (TICKS / 10) == 0) {
			double row[3] = {now(CLOCK_MONOTONIC), made[0], now(CLOCK_THREAD_CPUTIME_ID)};

			fwrite(row, sizeof(row), 1, trace);
		}
		next.tv_nsec += 1000000000L / TICKS;
		if (next.tv_nsec >= 1000000000L)
			next.tv_nsec -= 1000000000L, next.tv_sec += 1;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	printf("%ld %ld %ld\n", made[0], made[1], made[2]);
	fflush(stdout);
	if (atof(argv[7]) > 0)
		sleep(atoi(argv[7]));
	return 0;
}
