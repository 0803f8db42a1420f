"""Pydantic's complaints, each at its place in the file and in the user's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from engine.config.secrets import holds, shown, stands_alone
from rules.document import Mapping, Scalar, Sequence
from rules.fields import did_you_mean, nearest
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from rules.document import Node
    from rules.fields import Report

# What is wrong with a message's template; its `ctx` has `start` and `end` in the text, and `hint`.
TEMPLATE = "message_template"
# By pydantic's error type, where its own words speak of Python rather than of the file.
_WORDS = {
    "string_type": ("expected text", "put quotes around it"),
    "bool_type": ("expected true or false", ""),
    "bool_parsing": ("expected true or false", ""),
    "int_type": ("expected a whole number", ""),
    "int_parsing": ("expected a whole number", ""),
    "int_from_float": ("expected a whole number", ""),
    "float_type": ("expected a number", ""),
    "float_parsing": ("expected a number", ""),
    "dict_type": ("expected a mapping of 'name: value' lines", ""),
    "model_type": ("expected a mapping of 'name: value' lines", ""),
    "tuple_type": ("expected a list", "each element starts with '- '"),
    "list_type": ("expected a list", "each element starts with '- '"),
    "path_type": ("expected a path", ""),
    "byte_size": ("expected a size", "such as 500MiB or 10GiB"),
    "byte_size_unit": ("unknown unit of size", "such as 500MiB or 10GiB"),
}


def report_all(
    error: ValidationError, root: Mapping, model: type[BaseModel], report: Report, what: str
) -> None:
    """Report every complaint of a validation of `root` against `model`."""
    details = error.errors(include_url=False, include_input=False)
    misspelt = {
        (*loc[:-1], nearest(str(loc[-1]), _names(_walk(loc, root, model)[2])))
        for loc in (detail["loc"] for detail in details if detail["type"] == "extra_forbidden")
    }
    for detail in details:
        # A field that stands there misspelt is not missing as well, and a secret that could not
        # be read is not also a wrong one.
        missing = detail["type"] == "missing" and detail["loc"] in misspelt
        if not missing and not _unread(detail, root, model, report):
            _report(detail, root, model, report, what)


def _unread(detail: ErrorDetails, root: Mapping, model: type[BaseModel], report: Report) -> bool:
    """Whether the complaint is about a secret whose reading is reported already."""
    told = {problem.span for problem in report.problems if problem.code == "secret"}
    if not told:
        return False
    whole = _walk(detail["loc"], root, model)[0]
    if detail["type"] == "value_error" and isinstance(whole, Mapping):
        # What is said of several settings together is said of a value that stands in for it.
        return any(span in told for span in _values(whole))
    *above, last = detail["loc"] or ("",)
    parent = _walk(tuple(above), root, model)[0]
    if not isinstance(parent, Mapping):
        return False
    entries = (parent.get(str(last)), parent.get(f"{last}_file"))
    return any(entry is not None and entry.value.span in told for entry in entries)


def _values(node: Mapping) -> Iterator[Span]:
    for entry in node.entries:
        yield entry.value.span
        if isinstance(entry.value, Mapping):
            yield from _values(entry.value)


def _report(
    detail: ErrorDetails, root: Mapping, model: type[BaseModel], report: Report, what: str
) -> None:
    node, key, owner, path = _walk(detail["loc"], root, model)
    kind = detail["type"]
    where = f"'{path}'" if path else what
    name = str(detail["loc"][-1]) if detail["loc"] else ""
    last = shown(name)
    if kind == "extra_forbidden" and key and stands_alone(name, key, report.source):
        hint = "put quotes around a value that holds a comma"
        report.add(key, f"{what}: expected 'name: value'", hint, "config")
    elif kind == "extra_forbidden":
        known = sorted(_names(owner))
        span = node.span if key is None else key
        report.add(span, f"{what} has no field '{path}'", did_you_mean(last, known), "config")
    elif kind == "missing":
        span = _head(node)
        report.add(span, f"{what} needs '{path}.{last}'" if path else f"{what} needs '{last}'",
                   code="config")  # fmt: skip
    elif kind == TEMPLATE and (text := _template(node)) is not None:
        report_template(detail, text, where, report)
    else:
        message, hint = _WORDS.get(kind, (detail["msg"].removeprefix("Value error, "), ""))
        message, separator, rest = message.partition("; ")
        hint = hint or (rest if separator else "")
        report.add(node.span, f"{where}: {message}", hint, "config")


def _template(node: Node) -> Scalar | None:
    """The text of a template: the field itself, or what it holds with its language."""
    if isinstance(node, Mapping) and len(node.entries) == 1:
        node = node.entries[0].value
    return node if isinstance(node, Scalar) else None


def report_template(detail: ErrorDetails, node: Scalar, where: str, report: Report) -> None:
    """Report what is wrong with a message's template, at its place in the scalar."""
    found = detail.get("ctx", {})
    offsets = node.offsets(report.source.text)
    end = min(max(found["start"] + 1, found["end"]), len(node.value))
    span = Span(offsets[found["start"]], offsets[end])
    report.add(span, f"{where}: {detail['msg']}", found["hint"], "template")


def _walk(
    loc: tuple[int | str, ...], root: Mapping, model: type[BaseModel]
) -> tuple[Node, Span | None, type[BaseModel] | None, str]:
    """As far into the file as the location leads: node, its key, the owning class, the path."""
    node: Node = root
    key: Span | None = None
    owner: type[BaseModel] | None = model
    inner: type[BaseModel] | None = model
    path: list[str] = []
    for step in loc:
        if isinstance(node, Mapping) and (entry := node.get(str(step))) is not None:
            node, key, owner = entry.value, entry.key.span, inner
            path.append(shown(str(step)))
            if inner is not None and str(step) in inner.model_fields:
                inner = holds(inner.model_fields[str(step)].annotation, BaseModel)
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node, key = node.items[step], None
            path.append(shown(str(step)))
    return node, key, owner, ".".join(path)


def _names(model: type[BaseModel] | None) -> list[str]:
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _head(node: Any) -> Span:
    if isinstance(node, Mapping) and node.entries:
        return node.entries[0].key.span
    assert isinstance(node, Mapping | Scalar | Sequence)  # noqa: S101 - narrows for mypy
    return node.span
