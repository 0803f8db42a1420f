"""Finds and loads `stallwatch.yaml`: every problem in one go, each at its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from engine.config.alertmanager import SECTIONS_HINT, open_alertmanager, read_alertmanager
from engine.config.complaints import report_all
from engine.config.kinds import installed
from engine.config.masking import masked
from engine.config.model import Config
from engine.config.plain import plain
from engine.config.relabelling import SECTION as RELABELLING
from engine.config.relabelling import read_relabelling
from engine.config.routing import SECTIONS, read_routing
from engine.config.secrets import SecretReader
from rules.decoding import read_source
from rules.document import Mapping, Scalar, compose
from rules.errors import StallwatchError
from rules.fields import Report, did_you_mean
from rules.source import ProblemsError, Span

if TYPE_CHECKING:
    from engine.config.kinds import Kinds
    from rules.source import Problem, Source

SEARCHED = (Path("stallwatch.yaml"), Path("/etc/stallwatch/stallwatch.yaml"))


def load_config(path: str | Path | None = None, kinds: Kinds | None = None) -> Config:
    """The configuration: `path`, else the first of SEARCHED, else the built-in defaults.

    `kinds`: the receivers and probes that it may name, by default what is installed.
    Raises ProblemsError for what the file says, UnreadableError when it cannot be opened.
    """
    file = find_config(path)
    if file is None:
        return Config()
    source = read_source(file)
    config, problems = load_source(source, file.resolve().parent, kinds)
    errors = [problem for problem in problems if problem.severity == "error"]
    if config is None or errors:
        raise ProblemsError(errors)
    return config


def load_alertmanager(path: str | Path, kinds: Kinds | None = None) -> Config:
    """What an alertmanager.yml says of routes and receivers, all else as by default.

    Raises ProblemsError, UnreadableError.
    """
    source = read_source(path)
    config, problems = load_alertmanager_source(source, Path(path).resolve().parent, kinds)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise ProblemsError(errors)
    return config


def load_alertmanager_source(
    source: Source, folder: Path, kinds: Kinds | None = None
) -> tuple[Config, tuple[Problem, ...]]:
    """The same of a text, with all that is to be said of it. Paths start at `folder`."""
    secrets, root = read_alertmanager(source, folder)
    if root is None and not secrets.report.failed:
        secrets.report.add(Span(0, 1), "it is no alertmanager.yml", SECTIONS_HINT, "config")
    routing: dict[str, Any] = {}
    wrong: tuple[Problem, ...] = ()
    if root is not None:
        kinds = installed() if kinds is None else kinds
        routing, wrong = read_routing(secrets, root, kinds, alertmanagers=True)
    problems = (*masked(secrets.report.ordered(), secrets.exposed), *wrong)
    return Config().model_copy(update=routing), problems


def find_config(path: str | Path | None = None) -> Path | None:
    """Which file holds the configuration; None: no file, so the defaults."""
    if path is not None:
        return Path(path)
    try:
        return next((candidate for candidate in SEARCHED if candidate.is_file()), None)
    except OSError as error:
        raise StallwatchError(f"cannot look for {SEARCHED[0]}: {error.strerror}") from error


def load_source(
    source: Source, folder: Path, kinds: Kinds | None = None
) -> tuple[Config | None, tuple[Problem, ...]]:
    """The configuration in a text, None when it has errors. Paths start at `folder`."""
    report = Report(source)
    document = compose(source)
    report.problems.extend(document.problems)
    if document.root is None:
        return (None if report.failed else Config()), masked(report.ordered(), ())
    if not isinstance(document.root, Mapping):
        message = "a configuration is a mapping of 'name: value' lines"
        report.add(document.root.span, message, "such as 'listen: 127.0.0.1:9466'", "config")
        # A secret's own file, handed over by mistake, looks like this.
        lone = (document.root.span,) if isinstance(document.root, Scalar) else ()
        return None, masked(report.ordered(), lone)
    kinds = installed() if kinds is None else kinds
    secrets = SecretReader(report, folder)
    theirs = open_alertmanager(secrets, document.root)
    reader, root = (secrets, document.root) if theirs is None else theirs
    routing: dict[str, Any] = {}
    wrong: tuple[Problem, ...] = ()
    if root is not None:
        routing, wrong = read_routing(reader, root, kinds, alertmanagers=theirs is not None)
    config = _build(secrets, document.root, kinds, routing)
    problems = masked(report.ordered(), secrets.exposed)
    if theirs is not None:
        problems += masked(theirs[0].report.ordered(), theirs[0].exposed)
    problems += wrong
    failed = any(problem.severity == "error" for problem in problems)
    return (None if failed else config), problems


def _build(
    secrets: SecretReader, root: Mapping, kinds: Kinds, routing: dict[str, Any]
) -> Config | None:
    """The rest of the file, and with it what was read of who is told."""
    report, folder = secrets.report, secrets.folder
    secrets.expose_unknown(root, {*Config.model_fields, *SECTIONS})
    _check_probes(report, root, kinds)
    values: dict[str, Any] = {
        entry.key.value: plain(entry.value)
        for entry in root.entries
        # An empty section (`queue:`) says nothing.
        if entry.key.value not in {*SECTIONS, RELABELLING}
        and not (isinstance(entry.value, Scalar) and entry.value.null)
    }
    relabelling = read_relabelling(report, root)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        report_all(error, root, Config, report, "the configuration")
        return None
    return config.model_copy(
        update={
            **routing,
            RELABELLING: relabelling,
            "rule_files": tuple(str(folder / pattern) for pattern in config.rule_files),
            "state_dir": folder / config.state_dir,
            "alertmanager_config": config.alertmanager_config
            and folder / config.alertmanager_config,
        }
    )


def _check_probes(report: Report, root: Mapping, kinds: Kinds) -> None:
    entry = root.get("probes")
    if entry is None or not isinstance(entry.value, Mapping):
        return
    for probe in entry.value.entries:
        if probe.key.value not in kinds.probes:
            message = f"there is no probe '{probe.key.value}'"
            hint = did_you_mean(probe.key.value, sorted(kinds.probes))
            report.add(probe.key.span, message, hint, "config")
        elif isinstance(probe.value, Mapping):
            _check_probe(report, probe.key.value, probe.value, kinds)


def _check_probe(report: Report, name: str, section: Mapping, kinds: Kinds) -> None:
    """A setting that the probe would never read is a typing error, and is shown as one."""
    settings = plain(section)
    settings.pop("enabled", None)
    model = kinds.probe_settings[name]() if settings and name in kinds.probe_settings else None
    if model is None:
        return
    try:
        model.model_validate(settings)
    except ValidationError as error:
        report_all(error, section, model, report, f"the probe '{name}'")
