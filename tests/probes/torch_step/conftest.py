"""A compiled stand-in for PyTorch: a libtorch_cpu.so that has the probed functions, and a
program that calls them in the ways that matter. The real PyTorch is tried in tests/e2e.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = """
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <unistd.h>
int sink;
#define NOINLINE __attribute__((noinline))
namespace c10d {
struct Work { bool wait(long us); };
NOINLINE bool Work::wait(long us) {
  if (us < 0) throw std::runtime_error("timed out");
  if (us) usleep(us);
  sink += 1;
  return true;
}
struct Reducer { void finalize_backward(); int wait_us; bool fail; };
NOINLINE void Reducer::finalize_backward() {
#ifdef OPAQUE
  asm volatile("lea 1f(%%rip), %%rax; jmp *%%rax; 1:" ::: "rax");
#endif
  Work work;
  work.wait(wait_us / 2);
  if (wait_us) usleep(wait_us / 2);
  if (fail) throw std::runtime_error("connection reset by peer");
  sink += 1;
}
enum class OpType : unsigned char { BROADCAST, ALLREDUCE, ALLGATHER = 4 };
struct ProcessGroupGloo { struct AsyncWork {
  AsyncWork(std::shared_ptr<int>, std::vector<int>, OpType, unsigned long);
}; };
NOINLINE ProcessGroupGloo::AsyncWork::AsyncWork(
    std::shared_ptr<int>, std::vector<int>, OpType op, unsigned long sequence) {
  sink += int(op) + sequence;
}
}
namespace torch { namespace autograd {
struct Engine { void execute(int inner); };
NOINLINE void Engine::execute(int inner) {
  if (inner < 0) throw std::runtime_error("backward");
  if (inner) execute(inner - 1);
  sink += 1;
}
namespace profiler {
std::unique_ptr<std::string> record_function_enter_new(const std::string &name);
NOINLINE std::unique_ptr<std::string> record_function_enter_new(const std::string &name) {
  return std::make_unique<std::string>(name);
}
} } }
template <typename Call> static int caught(Call call) {
  try { call(); } catch (std::runtime_error &) { return 1; }
  return 0;
}
extern "C" {
int step(int wait_us, int fail) {
  c10d::Reducer reducer{wait_us, fail != 0};
  return caught([&] { reducer.finalize_backward(); });
}
int wait_work(int wait_us) {
  return caught([&] { c10d::Work work; work.wait(wait_us); });
}
int backward(int inner) {
  return caught([&] { torch::autograd::Engine engine; engine.execute(inner); });
}
void range(const char *name) { torch::autograd::profiler::record_function_enter_new(name); }
void collective(int op) { c10d::ProcessGroupGloo::AsyncWork({}, {}, c10d::OpType(op), 1); }
}
"""
# Reads one word and two numbers a line; answers each line when it is done.
PROGRAM = """
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>
#include <unistd.h>
#include <sys/wait.h>
extern "C" int step(int wait_us, int fail), wait_work(int us), backward(int inner);
extern "C" void range(const char *name), collective(int op);
static void steps(int count, int wait_us) { while (count-- > 0) step(wait_us, 0); }
int main() {
  char word[64]; int a, b;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  printf("%d\\n", getpid());
  while (scanf("%63s %d %d", word, &a, &b) == 3) {
    if (!strcmp(word, "steps")) steps(a, b);
    if (!strcmp(word, "waits")) while (a-- > 0) wait_work(b);
    if (!strcmp(word, "backwards")) while (a-- > 0) backward(b);
    if (!strcmp(word, "throw")) printf("caught %d, ", step(a, 1));
    if (!strcmp(word, "throw_wait")) printf("caught %d, ", wait_work(-1));
    if (!strcmp(word, "throw_backward")) printf("caught %d, ", backward(-1));
    if (!strncmp(word, "range:", 6)) while (a-- > 0) { range(word + 6); usleep(b); }
    if (!strncmp(word, "collectives:", 12)) while (a-- > 0) {
      for (char *op = word + 12; *op; op++) collective(*op - '0');
      usleep(b);
    }
    if (!strcmp(word, "threads")) {
      std::vector<std::thread> all;
      for (int i = 0; i < a; i++) all.emplace_back(steps, 10, b);
      for (auto &each : all) each.join();
    }
    if (!strcmp(word, "hang")) { std::thread(steps, 1, 1000 * 1000000).detach(); usleep(50000); }
    if (!strcmp(word, "fork")) {
      pid_t child = fork();
      if (!child) { steps(a, b); sleep(3600); }
      usleep(200000); printf("%d, ", child);
    }
    printf("done\\n");
  }
}
"""


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; its libtorch_cpu.so lies beside it."""
    return build(tmp_path_factory.mktemp("torch"))


@pytest.fixture(scope="session")
def opaque_stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a jump through a register in the function, as no compiler writes it."""
    if platform.machine() != "x86_64":
        pytest.skip("the jump is written for x86-64")
    return build(tmp_path_factory.mktemp("opaque"), "-DOPAQUE")


def build(folder: Path, *flags: str) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler for the stand-in")
    (folder / "library.cc").write_text(LIBRARY)
    (folder / "program.cc").write_text(PROGRAM)
    library, program = folder / "libtorch_cpu.so", folder / "program"
    shared = [*flags, "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", "-o", str(library)]
    subprocess.run([compiler, "-O2", *shared, str(folder / "library.cc")], check=True)
    linked = ["-pthread", f"-Wl,-rpath,{folder}", "-o", str(program)]
    subprocess.run([compiler, "-O2", str(folder / "program.cc"), str(library), *linked], check=True)
    return program
