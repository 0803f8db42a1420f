"""`stallwatch probes`: what is attached, and what could be."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from engine.address import local_url
from engine.config.loader import load_config
from engine.http.client import NoAgentError, ask
from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

TIMEOUT_SECONDS = 3.0
COUNTERS = ("produced", "consumed", "lost")


@dataclass(slots=True)
class ProbeRow:
    """A line of the table. `state` is attached, degraded or off; without an agent "ready" or
    "off". The counters are the agent's, since it started.
    """  # noqa: D205 - one sentence

    probe: str
    state: str
    reason: str = ""
    detail: str = ""
    mend: str = ""
    counts: dict[str, float] = field(default_factory=dict)


class ProbesCommand:
    """Ask the running agent; without one, look whether each probe could. Attaches nothing."""

    summary = "show which probes are attached and why the others are not, or find what to probe"
    example = "stallwatch probes find libnccl.so 'ncclAll*'"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the action `find` and the options."""
        parser.add_argument(
            "action",
            nargs="?",
            choices=("find",),
            help="find: list a library's functions by name; without it, the probes",
        )
        parser.add_argument(
            "library",
            nargs="?",
            metavar="LIB",
            help="find: a path, a file name that a running process maps, or PID:NAME",
        )
        parser.add_argument(
            "pattern",
            nargs="?",
            metavar="PATTERN",
            help="find: a part of the name or a glob over it, mangled or demangled",
        )
        parser.add_argument("--limit", type=int, default=50, help="find: symbols shown per file")
        parser.add_argument("--config", metavar="FILE", help="whose `listen` address to ask")
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Print the probes; exit 0 whatever they say. `find`: exit 1 when nothing was found."""
        if args.action == "find":
            return _find(args)
        listen = str(load_config(args.config).listen)
        text = fetch_metrics(listen)
        rows = preview() if text is None else explained(read_metrics(text), listen)
        if args.format == "json":
            agent = None if text is None else listen
            print(json.dumps({"agent": agent, "probes": [asdict(row) for row in rows]}, indent=2))
            return 0
        if text is None:
            print(f"No agent answers at {listen}. What could attach here, had it been started:\n")
        print(render(rows))
        return 0


def _find(args: argparse.Namespace) -> int:
    from probes.cli.find import find

    if args.library is None or args.pattern is None:
        raise StallwatchError(
            "stallwatch probes find: a library and a pattern are needed\n"
            "    hint: stallwatch probes find libnccl.so 'ncclAll*'"
        )
    return find(args.library, args.pattern, args.limit, as_json=args.format == "json")


def fetch_metrics(listen: str) -> str | None:
    """The agent's /metrics; None when no agent answers there."""
    try:
        text = ask(local_url(listen), "/metrics", TIMEOUT_SECONDS).decode("utf-8", "replace")
    except NoAgentError:
        return None
    # Something else may listen there.
    return text if "stallwatch_" in text else None


def read_metrics(text: str) -> list[ProbeRow]:
    """Rows from the exposition text of an agent, by name."""
    from prometheus_client.parser import text_string_to_metric_families

    rows: dict[str, ProbeRow] = {}
    counted: list[tuple[str, str, float]] = []
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            probe = sample.labels.get("probe", "")
            if sample.name == "stallwatch_probe_up":
                reason = sample.labels.get("reason", "")
                state = ("degraded" if reason else "attached") if sample.value else "off"
                rows[probe] = ProbeRow(probe, state, reason)
            counted += [
                (probe, counter, sample.value)
                for counter in COUNTERS
                if sample.name == f"stallwatch_probe_{counter}_total"
            ]
    for probe, counter, value in counted:
        if probe in rows:
            counts = rows[probe].counts
            counts[counter] = counts.get(counter, 0.0) + value
    return [rows[name] for name in sorted(rows)]


def explained(rows: list[ProbeRow], listen: str) -> list[ProbeRow]:
    """The rows with what the agent saw and the mend; without, when it does not tell."""
    try:
        answer = json.loads(ask(local_url(listen), "/api/v1/status/probes", TIMEOUT_SECONDS))
        told = {each["probe"]: each for each in answer["data"]}
    except (NoAgentError, ValueError, TypeError, KeyError):
        return rows  # an older agent, or one that is just leaving
    return [_explained(row, told[row.probe]) if row.probe in told else row for row in rows]


def _explained(row: ProbeRow, told: dict[str, object]) -> ProbeRow:
    state, detail, mend = (str(told.get(name, "")) for name in ("state", "detail", "mend"))
    return replace(row, state=state, detail=detail, mend=mend)


def preview() -> list[ProbeRow]:
    """Whether each registered probe could attach, as far as can be told without attaching."""
    from importlib.metadata import entry_points

    points = sorted(entry_points(group="stallwatch.probes"), key=lambda point: point.name)
    return [_preview(point.name, point.value.partition(":")[0]) for point in points]


def _preview(name: str, module: str) -> ProbeRow:
    from importlib import import_module
    from pathlib import Path

    from probes.bpf import capabilities, compiler
    from probes.bpf.errors import UnavailableError
    from probes.gpu.nvml import Nvml, NvmlError

    try:
        source = import_module(module).__file__
        if source is not None and Path(source).with_name("program.bpf.c").exists():
            capabilities.require_bpf(capabilities.read_privileges())
            compiler.find_bcc()
        elif name == "gpu":
            Nvml().close()
    except (UnavailableError, NvmlError) as error:
        return ProbeRow(name, "off", error.reason, error.detail, error.mend)
    except ImportError as error:
        return ProbeRow(name, "off", "fault", f"{module} cannot be loaded: {error}")
    return ProbeRow(name, "ready")


def render(rows: Iterable[ProbeRow]) -> str:
    """A table; detail and mend below their line."""
    rows = list(rows)
    width = max([len(row.probe) for row in rows] + [len("PROBE")])
    lines = [f"{'PROBE':<{width}}  {'STATE':<8}  REASON"]
    for row in rows:
        counts = ", ".join(f"{name} {value:,.0f}" for name, value in row.counts.items())
        lines.append(f"{row.probe:<{width}}  {row.state:<8}  {row.reason or counts}".rstrip())
        for mark, text in (("", row.detail), ("-> ", row.mend), ("", counts * bool(row.reason))):
            if text:
                lines.append(f"{'':<{width}}  {'':<8}  {mark}{text}")
    return "\n".join(lines)
