"""What `probes: custom:` may hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from engine.config.model import Section
from engine.config.quantities import Duration, Interval
from probes.budget.settings import BudgetConfig
from probes.custom.names import label_problem, metric_problem

MAX_PROBES = 32
MAX_NAMES = 16
MAX_ARGUMENTS = 4
Take: TypeAlias = Literal["count", "latency", "value", "histogram", "bytes"]
Width: TypeAlias = Literal["int", "uint", "long", "ulong", "size_t"]
OF_ARGUMENTS = frozenset({"value", "histogram", "bytes"})


def _argument(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and not 1 <= value <= 6:
        raise ValueError(
            f"argument {value} is not in a register; 1 to 6 count from the left, 'this' included"
        )
    return value


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"'{text}' is no number; such as {{0: read, 1: write}}") from None


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Argument = Annotated[int, BeforeValidator(_argument), Field(strict=True)]


class MetricConfig(Section):
    """One metric.

    `take`: count or latency of calls; or of an integer `argument` (1 to 6) the last value, a
    histogram, or the sum in bytes. `type`: the argument's C type.
    """

    name: str
    take: Take
    argument: Argument | None = None
    type: Width = "long"

    @model_validator(mode="after")
    def _whole(self) -> MetricConfig:
        if self.take in OF_ARGUMENTS and self.argument is None:
            raise ValueError(f"'take: {self.take}' needs 'argument'; 1 to 6, from the left")
        if self.take not in OF_ARGUMENTS and self.argument is not None:
            raise ValueError(f"'take: {self.take}' is of the call and has no 'argument'")
        problem = metric_problem(self.name, self.take)
        if problem:
            raise ValueError(problem)
        return self


class LabelConfig(Section):
    """A label that an integer argument tells, through `names`; any other number is `other`."""

    label: str
    argument: Argument
    type: Width = "long"
    names: dict[int, str] = Field(min_length=1, max_length=MAX_NAMES)
    other: str = "other"

    @field_validator("label")
    @classmethod
    def _named(cls, value: str) -> str:
        problem = label_problem(value)
        if problem:
            raise ValueError(problem)
        return value

    @field_validator("names", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {_number(str(key)): name for key, name in value.items()}


class ProbeConfig(Section):
    """One probe: a function, or several that a glob means, and what is taken of their calls.

    `library`: the beginning of a file's name, or a glob over it. `symbol`: an ELF name, a glob over
    those, or a demangled name without parameters; a list of them. `most`: how many functions it may
    mean in one file. `slow`: calls that take at least so long are events; 0s: none is.
    """

    name: str = Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")
    library: str = Field(min_length=1)
    symbol: Annotated[tuple[str, ...], BeforeValidator(_one_or_more)]
    most: int = Field(default=8, strict=True, ge=1, le=256)
    labels: dict[str, str] = Field(default_factory=dict)
    label_from: LabelConfig | None = None
    metrics: tuple[MetricConfig, ...]
    slow: Duration = Interval(0)

    @field_validator("labels")
    @classmethod
    def _named(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            problem = label_problem(name)
            if problem:
                raise ValueError(problem)
        return value

    @field_validator("metrics", "symbol")
    @classmethod
    def _some(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if not value:
            raise ValueError("expected at least one")
        return value

    @field_validator("library")
    @classmethod
    def _file_name(cls, value: str) -> str:
        if "/" in value:
            raise ValueError("a file's own name, without folders; such as 'libnccl.so'")
        return value

    @model_validator(mode="after")
    def _together(self) -> ProbeConfig:
        if self.label_from is not None and self.label_from.label in self.labels:
            raise ValueError(f"the label '{self.label_from.label}' is given twice")
        if len(self.arguments) > MAX_ARGUMENTS:
            raise ValueError(f"at most {MAX_ARGUMENTS} different arguments can be taken of a call")
        return self

    @property
    def arguments(self) -> tuple[tuple[int, str], ...]:
        """(argument, type) that its metrics take, each once."""
        taken = ((m.argument, m.type) for m in self.metrics if m.argument is not None)
        return tuple(dict.fromkeys(taken))

    @property
    def timed(self) -> bool:
        """Whether its exits have to be probed too."""
        return bool(self.slow.ms) or any(metric.take == "latency" for metric in self.metrics)


class CustomSettings(Section):
    """`probes`: the user's own. `budget` bounds each; the limits size the kernel's tables."""

    probes: tuple[ProbeConfig, ...] = Field(default=(), max_length=MAX_PROBES)
    budget: BudgetConfig = BudgetConfig()
    threads_limit: int = Field(default=8_192, strict=True, ge=1)
    totals_limit: int = Field(default=8_192, strict=True, ge=1)
    processes_limit: int = Field(default=8_192, strict=True, ge=1)
    files_limit: int = Field(default=256, strict=True, ge=1)

    @field_validator("probes")
    @classmethod
    def _apart(cls, value: tuple[ProbeConfig, ...]) -> tuple[ProbeConfig, ...]:
        names: set[str] = set()
        taken: dict[str, tuple[str, frozenset[str]]] = {}
        for probe in value:
            if probe.name in names:
                raise ValueError(f"two probes are called '{probe.name}'")
            names.add(probe.name)
            chosen = {probe.label_from.label} if probe.label_from else set()
            for metric in probe.metrics:
                shape = (metric.take, frozenset(probe.labels) | chosen)
                if taken.setdefault(metric.name, shape) != shape:
                    raise ValueError(
                        f"the metric '{metric.name}' of '{probe.name}' has another kind or other "
                        "labels elsewhere; give it a name of its own"
                    )
        return value

    def defines(self) -> dict[str, int]:
        """As the program names them."""
        return {
            "CUSTOM_PROBES": len(self.probes),
            "SW_CALL_THREADS": self.threads_limit,
            "SW_CALL_TOTALS": self.totals_limit,
            "SW_CALL_PROCESSES": self.processes_limit,
        }
