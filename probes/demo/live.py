"""The demo for real: namespaces, a job, packet loss, and an agent with real probes."""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.alerts.alert import AlertState
from engine.promql.value import Axis, Vector
from probes.demo.errors import NotHereError
from probes.demo.inbox import Inbox
from probes.demo.job import Job, has_torch, job
from probes.demo.network import ADDRESSES, Network, network, require_tools
from probes.demo.owner import scratch_folder
from probes.demo.signals import Cleanup, ending_signals
from probes.demo.story import LOSS_PER_MILLE, RATE, RULE, Story, write_rules
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.alerts.alert import Alert
    from engine.config.model import Config
    from engine.pipeline.agent import Agent
    from engine.pipeline.view import AgentView
    from probes.demo.screen import Screen

START_SECONDS = 90
CLEAN_SECONDS = 12
# The loss goes on for a moment, so that the alert can be read while it is true.
AFTERWARDS_SECONDS = 3
LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Take:
    """What came of a live demo. `loss_ended_ms` 0: the alert did not fire in time."""

    task_id: str
    workload: str
    loss_began_ms: int
    clean_steps_per_second: float
    loss_ended_ms: int = 0
    lossy_steps_per_second: float = 0.0
    resolved_ms: int = 0


def require_privileges() -> None:
    """Raises NotHereError for what can be known without making anything."""
    from probes.bpf import capabilities, compiler
    from probes.bpf.errors import UnavailableError

    if os.geteuid() != 0:
        raise NotHereError("no root")
    require_tools()
    try:
        capabilities.require_bpf(capabilities.read_privileges())
        compiler.find_bcc()
    except UnavailableError as error:
        raise NotHereError(error.detail, error.mend) from None


def play(screen: Screen, bound_seconds: float, keep: Path | None = None, node: str = "") -> Take:
    """Play it; everything that was made is removed at the end, however it ends.

    `bound_seconds`: how long to wait for the alert, and again for its end. `keep`: a folder for
    the recording and its rules. `node`: the name of this node, by default the host's.

    Raises NotHereError where it cannot be played, StallwatchError when the job dies.
    """
    require_privileges()
    task_id = f"demo-{os.getpid()}"
    try:
        with ending_signals(), Cleanup() as cleanup:
            scratch = cleanup.enter_context(scratch_folder())
            pair = cleanup.enter_context(network())
            agent, inbox = _agent(keep or scratch, scratch, node)
            cleanup.callback(agent.stop)
            story = Story(screen, task_id)
            _introduce(story, pair, agent)
            running = cleanup.enter_context(job(pair, task_id, scratch))
            take = _Scene(story, running, pair, agent, inbox, bound_seconds).play()
    except (KeyboardInterrupt, SystemExit):
        screen.say(_now_ms(), "interrupted; namespaces, processes and temporary files are removed")
        raise
    screen.say(_now_ms(), "removed: namespaces, processes and temporary files")
    return take


def _agent(keep: Path, scratch: Path, node: str) -> tuple[Agent, Inbox]:
    from engine.config.model import Config
    from engine.pipeline.agent import Agent
    from engine.plugins import load_probes

    said: dict[str, object] = {"node": node} if node else {}
    if not has_torch():
        # Nothing of the demo for it to see; other jobs of this machine are left alone.
        said["probes"] = {"torch_step": {"enabled": False}}
    config: Config = Config.model_validate(
        {"state_dir": scratch, "flush_interval": "1s", "evaluation_interval": "1s", **said}
    )
    files = write_rules(keep / "rules")
    inbox = Inbox()
    return Agent(config, files, load_probes(), inbox, recording=keep / "recording"), inbox


def _introduce(story: Story, pair: Network, agent: Agent) -> None:
    story.screen.say(
        _now_ms(),
        "network: two namespaces joined by a veth pair",
        *(f"{name} {address}" for name, address in zip(pair.names, ADDRESSES, strict=True)),
    )
    story.rules(_now_ms())
    agent.start()
    statuses = agent.collector.statuses
    story.screen.say(
        _now_ms(),
        "agent: probes attached",
        *(
            f"{status.probe}: {' '.join(filter(None, (status.state, status.reason)))}"
            for status in statuses.values()
        ),
    )
    needed = statuses["tcp_retransmit"]
    if needed.state == "off" or needed.reason == "poller":
        raise NotHereError(f"probe tcp_retransmit cannot attach: {needed.detail}", needed.mend)


@dataclass(slots=True)
class _Scene:
    """The job under the agent's eyes."""

    story: Story
    job: Job
    pair: Network
    agent: Agent
    inbox: Inbox
    bound_seconds: float
    _told_pending: bool = False
    _before: list[tuple[float, int]] = field(default_factory=list)

    def play(self) -> Take:
        """Clean, lossy, healed."""
        pids = [process.pid for process in self.job.ranks]
        self.story.screen.say(
            _now_ms(),
            f"job: task {self.job.task_id}, two ranks that {self.job.description}",
            *(f"rank {rank} is pid {pid}" for rank, pid in enumerate(pids)),
        )
        self._watch(lambda: min(self.job.steps) > 0, START_SECONDS)
        if min(self.job.steps) == 0:
            raise StallwatchError(f"stallwatch demo: the job made no step in {START_SECONDS} s")
        clean_steps = self._pace(lambda: self._watch(lambda: False, CLEAN_SECONDS))
        self.story.clean(_now_ms(), self._retransmits(), clean_steps)
        began_ms = _now_ms()
        self.pair.lose(LOSS_PER_MILLE)
        self.story.loss(began_ms)
        take = Take(self.job.task_id, self.job.workload, began_ms, clean_steps)
        fired: list[Alert | None] = []
        lossy_steps = self._pace(lambda: fired.append(self._alert(AlertState.FIRING)))
        if fired == [None]:
            self.story.screen.say(
                _now_ms(),
                f"{RULE} did not fire within {self.bound_seconds:g} s",
                "'stallwatch doctor' tells what this machine does not allow.",
            )
            return take
        self._watch(lambda: False, AFTERWARDS_SECONDS)
        ended_ms = _now_ms()
        self.pair.heal()
        self.story.healed(ended_ms, lossy_steps)
        resolved = self._alert(AlertState.RESOLVED)
        return dataclasses.replace(
            take,
            loss_ended_ms=ended_ms,
            lossy_steps_per_second=lossy_steps,
            resolved_ms=0 if resolved is None else resolved.resolved_at_ms or 0,
        )

    def _pace(self, watch: Callable[[], object]) -> float:
        """Steps per second while something is watched."""
        started, had = time.monotonic(), self.job.steps[0]
        watch()
        return (self.job.steps[0] - had) / (time.monotonic() - started)

    def _alert(self, state: AlertState) -> Alert | None:
        """Wait for the alert to get into a state; None: it does not in time."""
        found: list[Alert] = []

        def came() -> bool:
            found.extend(alert for alert in self._news() if alert.state is state)
            return bool(found)

        self._watch(came, self.bound_seconds)
        return found[0] if found else None

    def _news(self) -> list[Alert]:
        """Tell of what arrived; the alerts of this story."""
        own = []
        for alert in self.inbox.arrived():
            if not self._is_own(alert):
                self.story.other(alert)
            elif alert.state is AlertState.FIRING:
                self.story.firing(alert)
                own.append(alert)
            else:
                self.story.resolved(alert)
                own.append(alert)
        return own

    def _watch(self, until: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not until() and time.monotonic() < deadline:
            self.job.check()
            active = self._active()
            if active is not None and not self._told_pending:
                self.story.pending(active)
                self._told_pending = True
            if self.story.screen.moving:
                self.story.status(self._retransmits(), self._steps(), active)
            time.sleep(LOOK_SECONDS)

    def _active(self) -> Alert | None:
        own = [alert for alert in self._view.alerts() if self._is_own(alert)]
        return own[0] if own else None

    def _is_own(self, alert: Alert) -> bool:
        labels = alert.labels
        return (labels.get("alertname"), labels.get("task_id")) == (RULE, self.job.task_id)

    def _retransmits(self) -> float:
        axis = Axis.instant(_now_ms())
        value = self._view.query(RATE.format(task_id=self.job.task_id), axis).value
        found = isinstance(value, Vector) and value.present.any()
        return float(value.values[value.present][0]) if found else 0.0  # type: ignore[union-attr]

    def _steps(self) -> float:
        """Steps per second over the last few looks."""
        self._before = [*self._before[-8:], (time.monotonic(), self.job.steps[0])]
        (then, had), (now, has) = self._before[0], self._before[-1]
        return (has - had) / (now - then) if now > then else 0.0

    @property
    def _view(self) -> AgentView:
        from engine.pipeline.view import AgentView

        return AgentView(self.agent)


def _now_ms() -> int:
    return int(time.time() * 1000)
