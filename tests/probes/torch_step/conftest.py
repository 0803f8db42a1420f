"""A compiled stand-in for PyTorch: a libtorch_cpu.so that has one function, and a program that
calls it in the ways that matter. The real PyTorch is tried in tests/e2e.
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
#include <stdexcept>
#include <unistd.h>
namespace c10d {
struct Reducer { void finalize_backward(); int wait_us; bool fail; };
int sink;
__attribute__((noinline)) void Reducer::finalize_backward() {
#ifdef OPAQUE
  asm volatile("lea 1f(%%rip), %%rax; jmp *%%rax; 1:" ::: "rax");
#endif
  if (wait_us) usleep(wait_us);
  if (fail) throw std::runtime_error("connection reset by peer");
  sink += 1;
}
}
extern "C" int step(int wait_us, int fail) {
  c10d::Reducer reducer{wait_us, fail != 0};
  try { reducer.finalize_backward(); } catch (std::runtime_error &) { return 1; }
  return 0;
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
extern "C" int step(int wait_us, int fail);
static void steps(int count, int wait_us) { while (count-- > 0) step(wait_us, 0); }
int main() {
  char word[16]; int a, b;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  printf("%d\\n", getpid());
  while (scanf("%15s %d %d", word, &a, &b) == 3) {
    if (!strcmp(word, "steps")) steps(a, b);
    if (!strcmp(word, "throw")) printf("caught %d, ", step(a, 1));
    if (!strcmp(word, "threads")) {
      std::vector<std::thread> all;
      for (int i = 0; i < a; i++) all.emplace_back(steps, 10, b);
      for (auto &each : all) each.join();
    }
    if (!strcmp(word, "hang")) { std::thread(steps, 1, 3600 * 1000000).detach(); usleep(50000); }
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
