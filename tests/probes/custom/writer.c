// Reads four numbers a line: calls, microseconds, bytes, kind.
#include <stdio.h>
#include <unistd.h>
long ckpt_write(int fd, const void *data, size_t bytes, int kind);
int ckpt_level(int level);
int main(void) {
  int calls, wait, kind;
  unsigned long bytes;
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("%d\n", getpid());
  while (scanf("%d %d %lu %d", &calls, &wait, &bytes, &kind) == 4) {
    while (calls-- > 0) {
      ckpt_write(wait, NULL, bytes, kind);
      ckpt_level(-kind);
    }
    printf("done\n");
  }
  return 0;
}
