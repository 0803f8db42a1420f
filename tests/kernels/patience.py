"""A pytest plugin for emulated machines, where each start of the compiler takes half a minute."""

from probes.bpf.compiler import COMPILER

COMPILER.idle_seconds = 3600.0
COMPILER.timeout_seconds = 600.0
