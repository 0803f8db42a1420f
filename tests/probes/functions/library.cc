// Functions to be probed. All of them are exported and none is inlined.
#include <cerrno>
#include <csetjmp>
#include <stdexcept>
#include <unistd.h>

#define PROBED extern "C" __attribute__((noinline, visibility("default")))

static volatile int sink;

// Adds up; fails (-1) for negative numbers.
PROBED long sw_add(long a, long b, long bytes) {
  sink += 1;
  return a < 0 ? -1 : a + b + bytes;
}

PROBED void sw_wait(int microseconds) {
  usleep(microseconds);
  sink += 1;
}

// Calls itself `depth` times.
PROBED int sw_recurse(int depth) {
  int below = depth > 0 ? sw_recurse(depth - 1) : 0;
  sink += 1;
  return below + 1;
}

PROBED void sw_throw(int deep) {
  sink += 1;
  if (deep) throw std::runtime_error("left by an exception");
  sink += 1;
}

PROBED void sw_jump(jmp_buf *back) {
  sink += 1;
  if (back) longjmp(*back, 1);
  sink += 1;
}

// Calls back from its middle, whence the caller may leave it in any way.
PROBED long sw_hold(void (*back)(void *), void *of) {
  sink += 1;
  back(of);
  sink += 1;
  return 1;
}

// Waits for a byte; -errno where it gets none.
PROBED long sw_read(int fd) {
  char byte;
  long got = read(fd, &byte, 1);
  sink += 1;
  return got < 0 ? -errno : got;
}

// Eight arguments: two on the stack on x86-64, none on arm64.
PROBED long sw_eight(long a, long b, long c, long d, long e, long f, long g, long h) {
  sink += 1;
  return a + b + c + d + e + f + g + h;
}

// One address, three names.
PROBED long sw_alias(long a, long b, long bytes) __attribute__((alias("sw_add")));
extern "C" __attribute__((weak, alias("sw_add"))) long sw_alias_weak(long a, long b, long bytes);

extern "C" int sw_data = 7;

namespace swcalls {
struct Engine {
  __attribute__((noinline)) int run(int times);
  __attribute__((noinline)) int run(double times);
};
int Engine::run(int times) { return sink += times; }
int Engine::run(double times) { return sink += static_cast<int>(times) + 1; }
}  // namespace swcalls
PROBED int sw_engine(int times) {
  swcalls::Engine engine;
  return engine.run(times) + engine.run(1.5);
}
