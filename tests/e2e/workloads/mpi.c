/*
 * An MPI job: `steps` times one MPI_Allreduce, before which the last rank is `late_us` late. Then, by
 * `end`: "error": three sends to a rank that does not exist, returned as errors; "abort": rank 0
 * aborts with 7; "die": the last rank kills itself in mid-run. Each rank writes its pid to a file
 * named after it in `folder`.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *folder = argv[1], *end = argv[4];
	int steps = atoi(argv[2]), late_us = atoi(argv[3]), rank, size;
	char path[4096];
	double one = 1, sum;
	FILE *file;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	snprintf(path, sizeof(path), "%s/%d", folder, rank);
	file = fopen(path, "w");
	fprintf(file, "%d", getpid());
	fclose(file);
	for (int step = 0; step < steps; step++) {
		if (rank == size - 1 && late_us)
			usleep(late_us);
		if (rank == size - 1 && step == steps / 2 && !strcmp(end, "die"))
			kill(getpid(), SIGKILL);
		MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	if (!strcmp(end, "error")) {
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		for (int i = 0; i < 3; i++)
			if (MPI_Send(&one, 1, MPI_DOUBLE, size + 5, 0, MPI_COMM_WORLD) == MPI_SUCCESS)
				return 9;
	}
	if (!strcmp(end, "abort")) {
		if (rank == 0)
			MPI_Abort(MPI_COMM_WORLD, 7);
		sleep(30);
	}
	MPI_Finalize();
	return sum == size ? 0 : 8;
}
