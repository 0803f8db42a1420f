// Reads one word and two numbers a line, does it, and answers one line.
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
long sw_add(long a, long b, long bytes);
void sw_wait(int microseconds);
int sw_recurse(int depth);
void sw_throw(int deep);
void sw_jump(jmp_buf *back);
long sw_eight(long, long, long, long, long, long, long, long);
int sw_engine(int times);
}

static void add(int times, long bytes) {
  while (times-- > 0) sw_add(times, 1, bytes);
}

// In a frame of its own, `depth` frames below the caller's.
__attribute__((noinline)) static int caught(int depth) {
  volatile char room[64];
  room[0] = 1;
  if (depth > 0) return caught(depth - 1) + room[0] - 1;
  try {
    sw_throw(1);
  } catch (std::runtime_error &) {
    return 1;
  }
  return 0;
}

static void jump() {
  jmp_buf back;
  if (!setjmp(back)) sw_jump(&back);
}

int main(int argc, char **argv) {
  char word[16];
  int a, b;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  printf("%d\n", getpid());
  while (scanf("%15s %d %d", word, &a, &b) == 3) {
    if (!strcmp(word, "add")) add(a, b);
    if (!strcmp(word, "fail")) while (a-- > 0) sw_add(-1, 0, 0);
    if (!strcmp(word, "wait")) while (a-- > 0) sw_wait(b);
    if (!strcmp(word, "recurse")) sw_recurse(a);
    if (!strcmp(word, "throw")) while (a-- > 0) caught(b);
    if (!strcmp(word, "nothrow")) while (a-- > 0) sw_throw(0);
    if (!strcmp(word, "jump")) while (a-- > 0) jump();
    if (!strcmp(word, "nojump")) while (a-- > 0) sw_jump(nullptr);
    if (!strcmp(word, "eight")) while (a-- > 0) sw_eight(1, 2, 3, 4, 5, 6, 7, 8);
    if (!strcmp(word, "engine")) while (a-- > 0) sw_engine(b);
    if (!strcmp(word, "threads")) {
      std::vector<std::thread> all;
      for (int i = 0; i < a; i++) all.emplace_back(add, b, 0);
      for (auto &each : all) each.join();
    }
    if (!strcmp(word, "hang")) {
      std::thread(sw_wait, 1000 * 1000000).detach();
      usleep(50000);
    }
    if (!strcmp(word, "fork")) {
      pid_t child = fork();
      if (!child) {
        add(a, b);
        pause();
      }
      usleep(200000);
      printf("%d ", child);
    }
    if (!strcmp(word, "exec")) {
      add(a, b);
      execv("/proc/self/exe", argv);
    }
    printf("done\n");
  }
}
