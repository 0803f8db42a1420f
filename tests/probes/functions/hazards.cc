// Leaves and interrupts probed functions in one way a run, and says what it computed.
//
// A run that ends by itself says how many calls of each function came back, in all its processes.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

extern "C" {
long sw_add(long a, long b, long bytes);
long sw_hold(void (*back)(void *), void *of);
long sw_read(int fd);
void sw_throw(int deep);
}

struct Calls {
  long add, hold, read;
};
static Calls *calls;  // shared with forked children
static char **arguments;

static void tell() {
  printf("ended add %ld hold %ld read %ld\n", calls->add, calls->hold, calls->read);
  fflush(stdout);
}

static long add(long a) {
  long sum = sw_add(a, 1, 0);
  __atomic_add_fetch(&calls->add, 1, __ATOMIC_RELAXED);
  return sum;
}
static void hold(void (*back)(void *), void *of) {
  sw_hold(back, of);
  __atomic_add_fetch(&calls->hold, 1, __ATOMIC_RELAXED);
}
static long await(int fd) {
  long got = sw_read(fd);
  __atomic_add_fetch(&calls->read, 1, __ATOMIC_RELAXED);
  return got;
}

// longjmp, out of one frame and out of a hundred.
static void leap(void *to) { longjmp(*static_cast<jmp_buf *>(to), 1); }
__attribute__((noinline)) static void deep(int depth, jmp_buf *to) {
  volatile char room[32];
  room[0] = 1;
  if (depth) deep(depth - 1, to);
  else sw_hold(leap, to);
  room[0] = 2;
}
static void jump() {
  volatile long sum = 0;
  for (int i = 0; i < 500; i++) {
    jmp_buf to;
    if (!setjmp(to)) deep(i % 2 * 100, &to);
    sum += add(i);
  }
  printf("sum %ld\n", sum);
}

// pthread_cancel unwinds as an exception does, and runs destructors.
static long unwound;
struct Guard {
  ~Guard() { __atomic_add_fetch(&unwound, 1, __ATOMIC_RELAXED); }
};
static void *waits(void *fd) {
  Guard guard;
  await(*static_cast<int *>(fd));
  return nullptr;
}
static void cancel() {
  int ends[2], cancelled = 0;
  if (pipe(ends)) abort();
  for (int i = 0; i < 50; i++) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, nullptr, waits, ends);
    if (i % 2) usleep(1000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    cancelled += result == PTHREAD_CANCELED;
  }
  printf("cancelled %d unwound %ld\n", cancelled, unwound);
}

static void throws() {
  int caught = 0;
  for (int i = 0; i < 500; i++) {
    try {
      hold([](void *) { sw_throw(1); }, nullptr);
    } catch (std::runtime_error &) {
      caught++;
    }
    add(i);
  }
  printf("caught %d\n", caught);
}

// Coroutines with stacks of their own, which switch inside a probed function.
static ucontext_t trunk, branches[3];
static long turns[3];
static void turn(void *of) {
  long mine = reinterpret_cast<long>(of);
  turns[mine] += add(mine);
  swapcontext(&branches[mine], &trunk);
}
static void branch(int mine) {
  while (true) hold(turn, reinterpret_cast<void *>(static_cast<long>(mine)));
}
static void stacks() {
  std::vector<std::vector<char>> rooms(3, std::vector<char>(1 << 16));
  for (int i = 0; i < 3; i++) {
    getcontext(&branches[i]);
    branches[i].uc_stack.ss_sp = rooms[i].data();
    branches[i].uc_stack.ss_size = rooms[i].size();
    makecontext(&branches[i], reinterpret_cast<void (*)()>(branch), 1, i);
  }
  for (int i = 0; i < 999; i++) {
    int next = i * i % 3;
    if (i % 5 == 0)
      hold([](void *of) { swapcontext(&trunk, &branches[*static_cast<int *>(of)]); }, &next);
    else
      swapcontext(&trunk, &branches[next]);
  }
  printf("turns %ld %ld %ld\n", turns[0], turns[1], turns[2]);
}

// One stack that is copied away and back, as greenlet does: two calls with one stack pointer.
static char *shared_stack;
static void copied() {
  const size_t size = 1 << 16;
  std::vector<char> saved[2] = {std::vector<char>(size), std::vector<char>(size)};
  shared_stack = static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (int i = 0; i < 2; i++) {
    getcontext(&branches[i]);
    branches[i].uc_stack.ss_sp = shared_stack;
    branches[i].uc_stack.ss_size = size;
    makecontext(&branches[i], reinterpret_cast<void (*)()>(branch), 1, i);
  }
  for (int i = 0; i < 400; i++) {
    int next = i % 2;
    if (i >= 2) memcpy(shared_stack, saved[next].data(), size);
    swapcontext(&trunk, &branches[next]);
    memcpy(saved[next].data(), shared_stack, size);
  }
  printf("turns %ld %ld\n", turns[0], turns[1]);
}

// Signals without SA_RESTART end a wait early; their handler calls a probed function, too.
static volatile sig_atomic_t signals;
static void handler(int) {
  signals++;
  add(signals);
}
static void interrupt() {
  static char room[1 << 16];
  stack_t other = {room, 0, sizeof(room)};
  sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  int ends[2], interrupted = 0;
  if (pipe(ends)) abort();
  pthread_t self = pthread_self();
  for (int i = 0; i < 50; i++) {
    std::thread other_thread([self] {
      usleep(2000);
      pthread_kill(self, SIGUSR1);
    });
    interrupted += await(ends[0]) == -EINTR;
    other_thread.join();
  }
  printf("interrupted %d signals %d\n", interrupted, signals);
}

// A fault inside a probed function whose handler jumps out.
static sigjmp_buf out;
static void fault() {
  volatile int faults = 0;
  signal(SIGSEGV, [](int) { siglongjmp(out, 1); });
  for (int i = 0; i < 200; i++) {
    if (!sigsetjmp(out, 1)) hold([](void *) { *static_cast<volatile int *>(nullptr) = 1; }, nullptr);
    else faults++;
    add(i);
  }
  printf("faults %d\n", faults);
}

static void forks() {
  long sum = 0;
  for (int i = 0; i < 60; i++) {
    pid_t child;
    if (i % 3 == 0) {
      child = fork();
      if (!child) {
        hold([](void *) {}, nullptr);
        _exit(static_cast<int>(add(i)));
      }
    } else if (i % 3 == 1) {
      child = vfork();
      if (!child) _exit(static_cast<int>(sw_add(i, 1, 0)));
      calls->add++;
    } else {
      // Forked inside the call: it returns in both.
      hold([](void *of) { *static_cast<pid_t *>(of) = fork(); }, &child);
      if (!child) _exit(i + 1);
    }
    int status;
    waitpid(child, &status, 0);
    sum += WEXITSTATUS(status);
  }
  printf("codes %ld\n", sum);
}

// Another program from inside a probed function, while a second thread waits in another.
static void execs() {
  int ends[2];
  if (pipe(ends)) abort();
  std::thread([&ends] { await(ends[0]); }).detach();
  usleep(20000);
  add(1);
  tell();
  hold([](void *) { execl("/proc/self/exe", arguments[0], "jump", nullptr); }, nullptr);
}

// A copy of the library under its path in the second argument, loaded and unloaded.
static void reload() {
  long sum = 0;
  for (int i = 0; i < 200; i++) {
    void *library = dlopen(arguments[2], RTLD_NOW);
    auto its = reinterpret_cast<long (*)(long, long, long)>(dlsym(library, "sw_add"));
    for (int j = 0; j < 5; j++) sum += its(i, j, 0);
    dlclose(library);
  }
  printf("sum %ld unloaded %d\n", sum, !dlopen(arguments[2], RTLD_NOW | RTLD_NOLOAD));
}

static void aborts() { hold([](void *) { abort(); }, nullptr); }
static void crash() { hold([](void *) { *static_cast<volatile int *>(nullptr) = 1; }, nullptr); }
static void killed() { hold([](void *) { kill(getpid(), SIGKILL); }, nullptr); }
static void leaves() { hold([](void *) { exit(7); }, nullptr); }
static void last_thread() {
  std::thread([] {
    usleep(20000);
    for (int i = 0; i < 100; i++) add(i);
    tell();
    _exit(9);
  }).detach();
  pthread_exit(nullptr);
}

int main(int, char **argv) {
  struct {
    const char *word;
    void (*run)();
  } all[] = {{"jump", jump},     {"cancel", cancel}, {"throw", throws},   {"stacks", stacks},
             {"copied", copied}, {"fault", fault},   {"forks", forks},    {"interrupt", interrupt},
             {"execs", execs},   {"reload", reload}, {"aborts", aborts},  {"crash", crash},
             {"killed", killed}, {"leaves", leaves}, {"last_thread", last_thread}};
  arguments = argv;
  calls = static_cast<Calls *>(
      mmap(nullptr, sizeof(Calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (auto &each : all)
    if (!strcmp(each.word, argv[1])) each.run();
  tell();
}
