#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int MPI_Init(int *, char ***), MPI_Barrier(int), PMPI_Send(int), MPI_Abort(int, int);
int MPIR_Err_return_comm(void *, const char *, int), MPI_Waitall(int);
static int us;
static void *barrier(void *unused) { MPI_Barrier(us); return unused; }
int main() {
  char word[32]; int a, b; pthread_t t[8];
  setvbuf(stdout, 0, _IOLBF, 0);
  printf("%d\n", getpid());
  while (scanf("%31s %d %d", word, &a, &b) == 3) {
    if (!strcmp(word, "init")) MPI_Init(0, 0);
    if (!strcmp(word, "barrier")) while (a-- > 0) MPI_Barrier(b);
    if (!strcmp(word, "send")) while (a-- > 0) PMPI_Send(b);
    if (!strcmp(word, "waitall")) while (a-- > 0) MPI_Waitall(b);
    if (!strcmp(word, "error")) while (a-- > 0) MPIR_Err_return_comm(0, "", b);
    if (!strcmp(word, "abort")) MPI_Abort(0, a);
    if (!strcmp(word, "threads")) {
      us = b;
      for (int i = 0; i < a; i++) pthread_create(t + i, 0, barrier, 0);
      for (int i = 0; i < a; i++) pthread_join(t[i], 0);
    }
    if (!strcmp(word, "hang")) { us = b; pthread_create(t, 0, barrier, 0); usleep(50000); }
    printf("done\n");
  }
}
