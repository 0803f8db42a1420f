/*
 * A process that does with a library and with itself what jobs do: loads, unloads, forks, runs other
 * programs, comes back under a pid that was another's. One command a line, an answer to each.
 *
 * With -DLIBRARY: the library, which exports the function that ends a step of PyTorch.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIBRARY
volatile int steps_done;
__attribute__((noinline)) void finalize(void *reducer) __asm__("_ZN4c10d7Reducer17finalize_backwardEv");
__attribute__((noinline)) void finalize(void *reducer)
{
	(void)reducer;
	steps_done++;
}
void step(void)
{
	finalize(0);
}
#else

static void *library;
static void (*step)(void);

static void steps(int count)
{
	while (count-- > 0)
		step();
}

/* A child that shares nothing with us but its mappings; with a pid of our choice where set. */
static pid_t fork_as(pid_t pid)
{
	struct clone_args arguments = {.exit_signal = SIGCHLD};

	if (!pid)
		return fork();
	arguments.set_tid = (uintptr_t)&pid;
	arguments.set_tid_size = 1;
	return syscall(SYS_clone3, &arguments, sizeof(arguments));
}

static void bomb(int children, int each)
{
	/* No more than 64 at a time: a node may limit the processes of a user. */
	pid_t running[64] = {0};

	for (int i = 0; i < children + 64; i++) {
		pid_t *slot = &running[i % 64];

		if (*slot)
			waitpid(*slot, 0, 0);
		*slot = i < children ? fork() : 0;
		if (i < children && !*slot) {
			steps(each);
			_exit(0);
		}
	}
}

static void run_bomb(int children, char *program)
{
	for (int i = 0; i < children; i++) {
		pid_t child = vfork();

		if (!child) {
			execl(program, program, (char *)0);
			_exit(1);
		}
		waitpid(child, 0, 0);
	}
}

static void *go_on(void *program)
{
	(void)program;
	usleep(100000);
	printf("done\n");
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	char line[4096], word[16], path[4000];
	int count, pid;

	if (argc > 1)
		library = dlopen(argv[1], RTLD_NOW);
	if (library)
		step = (void (*)(void))dlsym(library, "step");
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		count = pid = 0;
		path[0] = 0;
		sscanf(line, "%15s %d %d", word, &count, &pid);
		sscanf(line, "%15s %3999s", word, path);
		if (!strcmp(word, "load")) {
			library = dlopen(path, RTLD_NOW);
			step = (void (*)(void))dlsym(library, "step");
		} else if (!strcmp(word, "unload")) {
			dlclose(library);
		} else if (!strcmp(word, "steps")) {
			steps(count);
		} else if (!strcmp(word, "fork")) {
			int ready[2];
			char byte;

			if (pipe(ready))
				return 1;
			pid_t child = fork_as(pid);
			if (!child) {
				steps(count);
				if (write(ready[1], "x", 1) != 1)
					_exit(1);
				/* Until the parent says what to run instead, if anything. */
				signal(SIGUSR1, SIG_DFL);
				for (;;)
					pause();
			}
			if (child > 0 && read(ready[0], &byte, 1) == 1)
				printf("%d ", child);
			close(ready[0]);
			close(ready[1]);
		} else if (!strcmp(word, "bomb")) {
			bomb(count, pid);
		} else if (!strcmp(word, "spawn")) {
			sscanf(line, "%*s %d %3999s", &count, path);
			run_bomb(count, path);
		} else if (!strcmp(word, "exec")) {
			sscanf(line, "%*s %3999s %15s", path, word);
			execl(path, path, argv[1], (char *)0);
			return 1;
		} else if (!strcmp(word, "execenv")) {
			sscanf(line, "%*s %3999s", path);
			putenv(path);
			execl("/proc/self/exe", argv[0], argv[1], (char *)0);
			return 1;
		} else if (!strcmp(word, "threads")) {
			pthread_t thread;

			while (count-- > 0)
				pthread_create(&thread, NULL, go_on, NULL);
			pthread_exit(NULL);
		}
		printf("done\n");
	}
	return 0;
}
#endif
