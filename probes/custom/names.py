"""Which metric and label names a user's own probe may use: Prometheus' rules, and not our names."""

from __future__ import annotations

import re

METRIC = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# Beginnings of the built-in metrics. A test holds this against docs/metrics.md.
OURS = (
    *("stallwatch_", "ALERTS", "backward_passes_", "clock_", "comm_", "cuda_", "custom_"),
    *(
        "function_",
        "gloo_",
        "gpu_",
        "mpi_",
        "nccl_",
        "node_",
        "optimizer_steps_",
        "process_",
        "rdma_",
    ),
    *("step_", "steps_", "task_", "tcp_", "torch_", "training_"),
)
RESERVED_LABELS = frozenset({"cluster", "node", "task_id", "rank", "le", "quantile", "stream"})
# By what is taken: how the name must end, and why.
ENDINGS = {
    "count": ("_total", "a counter's name ends in _total"),
    "bytes": ("_bytes_total", "a counter of bytes ends in _bytes_total"),
    "latency": ("_seconds", "a histogram of durations ends in _seconds"),
}
SUFFIXES = ("_total", "_bucket", "_sum", "_count", "_created", "_info")


def metric_problem(name: str, take: str) -> str:
    """Why a metric cannot have this name, with a hint after "; ", or ""."""
    if not METRIC.fullmatch(name):
        return f"'{name}' is no metric name; letters, digits and _, and no digit first"
    for beginning in OURS:
        if name.startswith(beginning):
            return f"names that begin with '{beginning}' are the built-in metrics'"
    if take in ENDINGS:
        ending, why = ENDINGS[take]
        if not name.endswith(ending):
            stem = name.removesuffix("_total").removesuffix("_seconds").removesuffix("_bytes")
            return f"{why}; such as '{stem}{ending}'"
        return ""
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return f"a {'gauge' if take == 'value' else 'histogram'} cannot end in '{suffix}'"
    return ""


def label_problem(name: str) -> str:
    """Why a label cannot have this name, or ""."""
    if not METRIC.fullmatch(name) or name.startswith("__"):
        return f"'{name}' is no label name; letters, digits and _, no digit and no __ first"
    if name in RESERVED_LABELS:
        return f"the label '{name}' is stallwatch's own"
    return ""
