#include <unistd.h>
static int sink;
int PMPI_Init(int *argc, char ***argv) { usleep(2000); return sink; }
int PMPI_Barrier(int us) { if (us) usleep(us); sink++; return 0; }
int PMPI_Send(int us) { if (us) usleep(us); sink++; return 0; }
__attribute__((noinline)) int MPIR_Err_return_comm(void *comm, const char *name, int code) {
  sink++; return code;
}
int PMPI_Abort(int comm, int code) { sink += code; return 0; }
static __attribute__((noinline, section(".text.apart"))) int wait_all(int us) {
  if (us) usleep(us); sink++; return 0;
}
/* Begins with a jump, as MPICH's does. */
int PMPI_Waitall(int us) { return wait_all(us); }
#pragma weak MPI_Init = PMPI_Init
#pragma weak MPI_Barrier = PMPI_Barrier
#pragma weak MPI_Send = PMPI_Send
#pragma weak MPI_Abort = PMPI_Abort
#pragma weak MPI_Waitall = PMPI_Waitall
