"""Secrets from where they are kept: the value itself, `env:NAME`, or `<field>_file: PATH`.

A field is secret when its settings class says so (pydantic's SecretStr). What is read becomes a
SecretStr at once, so that no message, log or dump shows it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel, SecretStr

from engine.config.plain import plain
from rules.decoding import open_at_once
from rules.document import Mapping, Scalar
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path
    from typing import Any

    from rules.document import Node
    from rules.fields import Report
    from rules.source import Source, Span

_ENVIRONMENT = "env:"
_FILE = "_file"
_NAME = re.compile(r"[\w-]{1,40}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
LARGEST_SECRET_BYTES = 65_536


def holds(annotation: Any, wanted: type) -> type | None:
    """The class below `wanted` that an annotation such as `X | None` or `list[X]` holds."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation if issubclass(annotation, wanted) else None
    found = (holds(argument, wanted) for argument in get_args(annotation))
    return next((one for one in found if one is not None), None)


def shown(name: str) -> str:
    """A field's name as messages may show it: only what a name can consist of."""
    found = _NAME.match(name)
    return found.group() if found else ""


def stands_alone(name: str, key: Span, source: Source) -> bool:
    """Whether no colon follows a key: `{url: a,b}` has the key `b`, which is half a value.

    A key that does not stand in the text was put there by a translation, and is whole.
    """
    written = source.text[key.start : key.end].strip("'\"")
    return written == name and not re.compile(r"['\"]?\s*:").match(source.text, key.end)


@dataclass(frozen=True, slots=True)
class SecretReader:
    """Resolves the secrets of one file. Relative paths start at `folder`."""

    report: Report
    folder: Path
    # Where the file itself holds a secret, or what may be one under a misspelt name.
    exposed: list[Span] = field(default_factory=list)

    def settings(self, node: Mapping, model: type[BaseModel]) -> dict[str, Any]:
        """The plain settings of a mapping, its secrets resolved; what fails is reported."""
        secret = {
            spec.alias or name
            for name, spec in model.model_fields.items()
            if holds(spec.annotation, SecretStr)
        }
        nested = {
            spec.alias or name: found
            for name, spec in model.model_fields.items()
            if (found := holds(spec.annotation, BaseModel))
        }
        settings: dict[str, Any] = {}
        for entry in node.entries:
            name = entry.key.value
            if shown(name) != name or stands_alone(name, entry.key.span, self.report.source):
                # A broken line, or a comma, can make a secret a key or a part of one.
                self.exposed.append(entry.key.span)
            target = name.removesuffix(_FILE)
            if name in secret:
                settings[name] = self.value(entry.value)
            elif name.endswith(_FILE) and target in secret and name not in model.model_fields:
                if node.get(target) is not None:
                    message = f"'{target}' and '{name}' are both given"
                    self.report.add(entry.key.span, message, "keep one", code="secret")
                else:
                    settings[target] = self.file(entry.value)
            elif isinstance(entry.value, Mapping) and name in nested:
                settings[name] = self.settings(entry.value, nested[name])
            else:
                if name not in model.model_fields:
                    self.exposed.append(entry.value.span)
                settings[name] = plain(entry.value)
        return settings

    def expose_unknown(self, node: Node, known: Collection[str]) -> None:
        """Under a name that nobody knows anything may stand, a secret among it."""
        for entry in node.entries if isinstance(node, Mapping) else ():
            if entry.key.value not in known:
                self.exposed.append(entry.value.span)

    def value(self, node: Any) -> Any:
        """The secret that stands in the file, or in the environment, as SecretStr."""
        if not isinstance(node, Scalar) or node.null:
            return plain(node)
        if not node.value.startswith(_ENVIRONMENT):
            self.exposed.append(node.span)
            return SecretStr(node.value)
        name = node.value.removeprefix(_ENVIRONMENT)
        if not _VARIABLE.fullmatch(name):
            self.exposed.append(node.span)
            message = "'env:' is followed by the name of an environment variable"
            self.report.add(node.span, message, "such as env:HOOK_URL", code="secret")
            return SecretStr("unset")
        value = os.environ.get(name)
        if not value:
            message = (
                f"the environment variable '{name}' is {'empty' if value == '' else 'not set'}"
            )
            hint = f"export {name}=..., or keep the secret in a file ('..._file: PATH')"
            self.report.add(node.span, message, hint, code="secret")
            return SecretStr("unset")
        return SecretStr(value)

    def file(self, node: Any) -> Any:
        """The secret in the file that is named, as SecretStr."""
        if not isinstance(node, Scalar) or not node.value:
            self.report.add(node.span, "expected the path of a file", code="secret")
            return SecretStr("unset")
        path = self.folder / node.value
        try:
            with open(path, "rb", opener=open_at_once) as file:
                text = file.read(LARGEST_SECRET_BYTES).decode().strip()
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            self.report.add(
                node.span, f"cannot read the secret in '{node.value}': {said}", code="secret"
            )
            return SecretStr("unset")
        if not text:
            self.report.add(node.span, f"the secret in '{node.value}' is empty", code="secret")
        return SecretStr(text)
