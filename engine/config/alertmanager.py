"""`alertmanager_config`: routes, receivers and what belongs to them from an alertmanager.yml.

The file is read as Alertmanager reads it: what `amtool check-config` refuses is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config.secrets import SecretReader
from rules.decoding import read_source
from rules.document import Mapping, Scalar, compose
from rules.errors import StallwatchError
from rules.fields import Fields, Report
from rules.source import ProblemsError

if TYPE_CHECKING:
    from pathlib import Path

    from rules.document import Entry
    from rules.source import Source

SETTING = "alertmanager_config"
# Its sections; `tracing` is Alertmanager's own affair.
SECTIONS = ("global", "route", "inhibit_rules", "receivers", "templates", "time_intervals",
            "mute_time_intervals", "tracing")  # fmt: skip
SECTIONS_HINT = "it begins with sections such as 'route:' and 'receivers:'"


def open_alertmanager(
    secrets: SecretReader, root: Mapping
) -> tuple[SecretReader, Mapping | None] | None:
    """The file that `alertmanager_config` names: a reader of its own, and its root, if it has one.

    None when the setting is absent or nothing can be read; what is wrong with the setting itself is
    reported to `secrets`, what is wrong with the file to the reader that is given back.
    """
    entry = root.get(SETTING)
    if entry is None or not isinstance(entry.value, Scalar) or entry.value.null:
        return None
    _refuse_both(secrets.report, entry, root)
    path = secrets.folder / entry.value.value
    try:
        source = read_source(path)
    except ProblemsError as error:
        secrets.report.problems.extend(error.problems)
        return None
    except StallwatchError as error:
        secrets.report.add(entry.value.span, f"cannot be read: {error}", code="config")
        return None
    own, theirs = read_alertmanager(source, path.resolve().parent)
    if theirs is None and not own.report.failed:
        message = f"{path} is no alertmanager.yml"
        secrets.report.add(entry.value.span, message, SECTIONS_HINT, "config")
    return own, theirs


def read_alertmanager(source: Source, folder: Path) -> tuple[SecretReader, Mapping | None]:
    """A reader for an alertmanager.yml, and its root; None: it has none. Problems are reported."""
    own = SecretReader(Report(source), folder)
    document = compose(source)
    own.report.problems.extend(document.problems)
    if not isinstance(document.root, Mapping):
        return own, None
    own.expose_unknown(document.root, SECTIONS)
    Fields.of(own.report, document.root, "an alertmanager.yml", SECTIONS)
    return own, document.root


def _refuse_both(report: Report, entry: Entry, root: Mapping) -> None:
    for name in SECTIONS:
        other = root.get(name)
        if other is not None:
            message = f"'{name}' and '{SETTING}' are both given"
            hint = f"'{name}' is read from {getattr(entry.value, 'value', '')}; keep one"
            report.add(other.key.span, message, hint, "config")
