#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int connect_mesh(int, int, int), receive(int), transmit(int);
static void *hang(void *unused) { connect_mesh(0, 2, 600000000); return unused; }
int main() {
  char word[32]; int a, b, c; pthread_t thread;
  setvbuf(stdout, 0, _IOLBF, 0);
  printf("%d\n", getpid());
  while (scanf("%31s %d %d %d", word, &a, &b, &c) == 4) {
    int failed = 0;
    if (!strcmp(word, "connect")) failed = connect_mesh(a, b, c);
    if (!strcmp(word, "receive")) while (a-- > 0) failed += receive(b);
    if (!strcmp(word, "transmit")) while (a-- > 0) failed += transmit(b);
    if (!strcmp(word, "hang")) { pthread_create(&thread, 0, hang, 0); usleep(50000); }
    printf("%d\n", failed);
  }
}
