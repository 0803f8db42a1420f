/*
 * A stand-in for libnvidia-ml.so.1: answers NVML's questions from a text file, so that the GPU probe
 * can be tried on a machine without a GPU. It is no driver and measures nothing.
 *
 *   gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o DIR/libnvidia-ml.so.1 nvml.c
 *   LD_LIBRARY_PATH=DIR STALLWATCH_NVML_VALUES=FILE stallwatch run
 *
 * FILE is read anew at every question; write it by rename. One GPU a line:
 *
 *   UUID UTILISATION [PID ...]      utilisation in percent; -N: the question fails with NVML error N
 *   init N                          nvmlInit fails with NVML error N
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };
enum { MAX_GPUS = 16, MAX_PIDS = 64, LINE = 2048 };

struct gpu { char uuid[96]; int utilisation; unsigned pids[MAX_PIDS]; unsigned count; };
struct rates { unsigned gpu, memory; };
struct process { unsigned pid; unsigned long long memory; unsigned instance, compute_instance; };

static int read_values(struct gpu *gpus, unsigned *count)
{
	const char *path = getenv("STALLWATCH_NVML_VALUES");
	FILE *file = path ? fopen(path, "r") : NULL;
	char line[LINE];
	int refused = SUCCESS;

	*count = 0;
	if (!file)
		return DRIVER_NOT_LOADED;
	while (*count < MAX_GPUS && fgets(line, sizeof(line), file)) {
		struct gpu *gpu = &gpus[*count];
		char *word = strtok(line, " \n"), *value = word ? strtok(NULL, " \n") : NULL;

		if (!value)
			continue;
		if (!strcmp(word, "init")) {
			refused = atoi(value);
			continue;
		}
		snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", word);
		gpu->utilisation = atoi(value);
		gpu->count = 0;
		while (gpu->count < MAX_PIDS && (word = strtok(NULL, " \n")))
			gpu->pids[gpu->count++] = (unsigned)strtoul(word, NULL, 10);
		*count += 1;
	}
	fclose(file);
	return refused;
}

/* A handle is the GPU's number plus one, so that it is never NULL. */
static int find(void *handle, struct gpu *found)
{
	struct gpu gpus[MAX_GPUS];
	unsigned count, number = (unsigned)(unsigned long)handle - 1;

	read_values(gpus, &count);
	if (number >= count)
		return INVALID_ARGUMENT;
	*found = gpus[number];
	return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags)
{
	struct gpu gpus[MAX_GPUS];
	unsigned count;

	(void)flags;
	return read_values(gpus, &count);
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int error)
{
	(void)error;
	return "an error of the stand-in";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	struct gpu gpus[MAX_GPUS];

	return read_values(gpus, count);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
	*handle = (void *)(unsigned long)(index + 1);
	return SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length)
{
	struct gpu gpu;
	int error = find(handle, &gpu);

	if (!error)
		snprintf(uuid, length, "%s", gpu.uuid);
	return error;
}

int nvmlDeviceGetUtilizationRates(void *handle, struct rates *rates)
{
	struct gpu gpu;
	int error = find(handle, &gpu);

	if (error)
		return error;
	if (gpu.utilisation < 0)
		return -gpu.utilisation;
	rates->gpu = (unsigned)gpu.utilisation;
	rates->memory = 0;
	return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *processes)
{
	struct gpu gpu;
	unsigned room = *count;
	int error = find(handle, &gpu);

	if (error)
		return error;
	*count = gpu.count;
	if (gpu.count > room)
		return INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < gpu.count; i++)
		processes[i] = (struct process){ .pid = gpu.pids[i] };
	return SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, struct process *processes)
{
	(void)handle;
	(void)processes;
	*count = 0;
	return SUCCESS;
}
