/*
 * A job that calls NCCL in the ways that matter and knows how often. Reads a word and up to four
 * numbers a line, answers each line when it is done.
 *
 *   gcc -O2 -pthread -o job job.c libnccl.so.2 libcudart.so.12 libcuda.so.1
 *
 *   init SLOT RANK NRANKS SEED        a communicator; SEED makes its unique id
 *   init_config SLOT RANK NRANKS SEED the same with a configuration
 *   scalable SLOT RANK NRANKS SEED    the same with ncclCommInitRankScalable
 *   nonblocking SLOT RANK NRANKS MS   one that is ready after MS
 *   all SLOT COUNT                    ncclCommInitAll into slots from SLOT
 *   together SLOT COUNT SEED          COUNT ranks of one communicator in a group
 *   split PARENT SLOT COLOUR          ncclCommSplit
 *   shrink PARENT SLOT COUNT          ncclCommShrink, without COUNT ranks
 *   ask SLOT                          ncclCommCount, ncclCommUserRank
 *   destroy|abort|finalize|revoke SLOT
 *   every SLOT COUNT TYPE             each operation once
 *   call SLOT COUNT TYPE TIMES        ncclAllReduce
 *   group SLOT COUNT TYPE TIMES       TIMES ncclSend and ncclRecv in a group
 *   load SECONDS RATE THREADS         so many a second in each thread, evenly; slot = thread mod 4
 *   sync US                           cudaStreamSynchronize that takes so long
 *   other_sync US                     the same in another thread
 *   device_sync US                    cudaDeviceSynchronize
 *   driver_sync US                    cuStreamSynchronize
 *   threads_sync COUNT US             COUNT threads, each one collective and one synchronise
 *   hang                              a thread in a synchronise that does not return
 *   hang_init                         a thread in an initialisation that does not return
 *   init_us US | kernel_us US | result R | async SLOT R
 *   watch SLOT TIMES                  ncclCommGetAsyncError
 *   kernels                           wait until the kernels have run
 *   fork SLOT TIMES                   a child that calls ncclAllReduce
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "stand_in.h"

int cudaStreamSynchronize(void *), cudaDeviceSynchronize(void), cuStreamSynchronize(void *);
void stand_in_sync_us(int);

enum { SLOTS = 256, OPS = 10 };
static ncclComm_t comms[SLOTS];
static char buffer[64];

static ncclUniqueId unique(int seed)
{
	ncclUniqueId id;
	unsigned i;

	for (i = 0; i < sizeof(id.internal); i++)
		id.internal[i] = (char)(seed * 31 + i);
	return id;
}

static void operation(int op, ncclComm_t comm, size_t count, int type)
{
	switch (op) {
	case 0: ncclAllReduce(buffer, buffer, count, type, 0, comm, NULL); break;
	case 1: ncclAllGather(buffer, buffer, count, type, comm, NULL); break;
	case 2: ncclReduceScatter(buffer, buffer, count, type, 0, comm, NULL); break;
	case 3: ncclBroadcast(buffer, buffer, count, type, 0, comm, NULL); break;
	case 4: ncclReduce(buffer, buffer, count, type, 0, 0, comm, NULL); break;
	case 5: ncclAlltoAll(buffer, buffer, count, type, comm, NULL); break;
	case 6: ncclGather(buffer, buffer, count, type, 0, comm, NULL); break;
	case 7: ncclScatter(buffer, buffer, count, type, 0, comm, NULL); break;
	case 8: ncclSend(buffer, count, type, 1, comm, NULL); break;
	case 9: ncclRecv(buffer, count, type, 1, comm, NULL); break;
	}
}

struct load { long seconds, rate, number; };

/* Call i of a thread is operation i mod 10 of 256 << (i mod 7) floats. No loop spins. */
static void *work(void *given)
{
	struct load *load = given;
	struct timespec next;
	long i, calls = load->seconds * load->rate, every = 1000000000L / load->rate;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (i = 0; i < calls; i++) {
		operation(i % OPS, comms[load->number % 4], 256UL << (i % 7), 7);
		next.tv_nsec += every;
		while (next.tv_nsec >= 1000000000L) {
			next.tv_nsec -= 1000000000L;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	return NULL;
}

static void *sync_stream(void *unused) { cudaStreamSynchronize(NULL); return unused; }
static void *call_and_sync(void *unused)
{
	operation(0, comms[0], 1, 7);
	cudaStreamSynchronize(NULL);
	return unused;
}
static void *begin_init(void *unused) { ncclCommInitRank(&comms[SLOTS - 1], 2, unique(99), 0); return unused; }

static void in_threads(int count, void *(*run)(void *), int wait)
{
	pthread_t threads[64];
	int i;

	for (i = 0; i < count && i < 64; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (i = 0; wait && i < count && i < 64; i++)
		pthread_join(threads[i], NULL);
}

static void load(long seconds, long rate, long count)
{
	pthread_t threads[64];
	struct load loads[64];
	long i;

	for (i = 0; i < count && i < 64; i++) {
		loads[i] = (struct load){seconds, rate, i};
		pthread_create(&threads[i], NULL, work, &loads[i]);
	}
	for (i = 0; i < count && i < 64; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	char line[256], word[32];
	int a, b, c, d, i;
	ncclConfig_t config = {sizeof(config), 0, 0, 1};
	ncclResult_t result;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		a = b = c = d = 0;
		result = 0;
		if (sscanf(line, "%31s %d %d %d %d", word, &a, &b, &c, &d) < 1)
			continue;
		if (!strcmp(word, "init")) result = ncclCommInitRank(&comms[a], c, unique(d), b);
		if (!strcmp(word, "init_config")) result = ncclCommInitRankConfig(&comms[a], c, unique(d), b, &config);
		if (!strcmp(word, "scalable")) {
			ncclUniqueId id = unique(d);
			result = ncclCommInitRankScalable(&comms[a], c, b, 1, &id, NULL);
		}
		if (!strcmp(word, "nonblocking")) {
			config.blocking = 0;
			result = ncclCommInitRankConfig(&comms[a], c, unique(7), b, &config);
			config.blocking = 1;
			for (i = 0; i < 3; i++)
				ncclCommGetAsyncError(comms[a], &result);
			usleep(1000 * d);
			stand_in_async(comms[a], 0);
			ncclCommGetAsyncError(comms[a], &result);
		}
		if (!strcmp(word, "all")) result = ncclCommInitAll(&comms[a], b, NULL);
		if (!strcmp(word, "together")) {
			ncclGroupStart();
			for (i = 0; i < b; i++)
				ncclCommInitRank(&comms[a + i], b, unique(c), i);
			result = ncclGroupEnd();
		}
		if (!strcmp(word, "split")) result = ncclCommSplit(comms[a], c, 0, &comms[b], NULL);
		if (!strcmp(word, "shrink")) result = ncclCommShrink(comms[a], NULL, c, &comms[b], NULL, 0);
		if (!strcmp(word, "ask")) {
			ncclCommCount(comms[a], &b);
			ncclCommUserRank(comms[a], &b);
		}
		if (!strcmp(word, "destroy")) result = ncclCommDestroy(comms[a]);
		if (!strcmp(word, "abort")) result = ncclCommAbort(comms[a]);
		if (!strcmp(word, "finalize")) result = ncclCommFinalize(comms[a]);
		if (!strcmp(word, "revoke")) result = ncclCommRevoke(comms[a], 0);
		if (!strcmp(word, "every")) {
			for (i = 0; i < OPS; i++)
				operation(i, comms[a], b, c);
			ncclBcast(buffer, b, c, 0, comms[a], NULL);
			ncclAllReduceConfig(buffer, buffer, b, c, 0, comms[a], NULL, NULL);
		}
		if (!strcmp(word, "call"))
			for (i = 0; i < d; i++)
				result = ncclAllReduce(buffer, buffer, b, c, 0, comms[a], NULL);
		if (!strcmp(word, "group")) {
			ncclGroupStart();
			for (i = 0; i < d; i++) {
				operation(8, comms[a], b, c);
				operation(9, comms[a], b, c);
			}
			result = ncclGroupEnd();
		}
		if (!strcmp(word, "load")) load(a, b, c);
		if (strstr(word, "sync")) stand_in_sync_us(strcmp(word, "threads_sync") ? a : b);
		if (!strcmp(word, "sync")) cudaStreamSynchronize(NULL);
		if (!strcmp(word, "other_sync")) in_threads(1, sync_stream, 1);
		if (!strcmp(word, "device_sync")) cudaDeviceSynchronize();
		if (!strcmp(word, "driver_sync")) cuStreamSynchronize(NULL);
		if (!strcmp(word, "threads_sync")) in_threads(a, call_and_sync, 1);
		if (!strcmp(word, "hang")) {
			stand_in_sync_us(900000000);
			in_threads(1, sync_stream, 0);
			usleep(50000);
		}
		if (!strcmp(word, "hang_init")) {
			stand_in_init_us(900000000);
			in_threads(1, begin_init, 0);
			usleep(50000);
		}
		if (!strcmp(word, "init_us")) stand_in_init_us(a);
		if (!strcmp(word, "kernel_us")) stand_in_kernel_us(a);
		if (!strcmp(word, "result")) stand_in_result(a);
		if (!strcmp(word, "async")) stand_in_async(comms[a], b);
		if (!strcmp(word, "watch"))
			for (i = 0; i < b; i++)
				ncclCommGetAsyncError(comms[a], &result);
		if (!strcmp(word, "kernels")) stand_in_kernels_done();
		if (!strcmp(word, "fork")) {
			pid_t child = fork();
			if (!child) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				for (i = 0; i < b; i++)
					operation(0, comms[a], 1, 7);
				pause();
			}
			usleep(300000);
			printf("%d ", child);
		}
		printf("%d\n", result);
	}
	return 0;
}
