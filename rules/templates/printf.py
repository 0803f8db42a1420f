"""printf: a format and its arguments. https://pkg.go.dev/fmt."""

from __future__ import annotations

import re
from typing import Any

from rules.slotted import dataclass, field
from rules.templates.errors import TemplateError
from rules.templates.values import type_name
from rules.templates.verbs import Verb

# Go stops at a million. One message of an alert needs no more than this.
WIDEST = 10_000
LONGEST = 1_000_000
_FLAGS = re.compile(r"[-+# 0]*")
_NUMBER = re.compile(r"[0-9]+")
_INDEX = re.compile(r"\[([^\]]*)\]")
_SHOW = Verb("v")


def sprintf(text: str, arguments: tuple[Any, ...]) -> str:
    """fmt.Sprintf. What does not fit prints Go's `%!verb(...)`.

    Raises TemplateError for a width or precision above WIDEST.
    """
    return _Format(text, arguments).expanded()


@dataclass(slots=True)
class _Format:
    text: str
    arguments: tuple[Any, ...]
    offset: int = 0
    argument: int = 0
    length: int = 0
    reordered: bool = False
    good_index: bool = True
    out: list[str] = field(default_factory=list)

    def expanded(self) -> str:
        while True:
            found = self.text.find("%", self.offset)
            if found < 0:
                break
            self.out.append(self.text[self.offset : found])
            self.offset = found + 1
            self._verb()
            self.length += len(self.out[-1])
            if self.length > LONGEST:
                raise TemplateError(f"printf: more than {LONGEST:,} characters")
        self.out.append(self.text[self.offset :])
        if not self.reordered and self.argument < len(self.arguments):
            self.out.append(self._extra())
        return "".join(self.out)

    def _verb(self) -> None:
        self.good_index = True
        flags = self._match(_FLAGS)
        after_index = self._index()
        width, after_index = self._width(after_index)
        minus = "-" in flags or (width is not None and width < 0)
        precision, after_index = self._precision(after_index)
        if not after_index:
            self._index()
        if self.offset >= len(self.text):
            self.out.append("%!(NOVERB)")
            return
        letter = self.text[self.offset]
        self.offset += 1
        if letter == "%":
            self.out.append("%")
        elif not self.good_index:
            self.out.append(f"%!{letter}(BADINDEX)")
        elif self.argument >= len(self.arguments):
            self.out.append(f"%!{letter}(MISSING)")
        else:
            verb = Verb(
                letter,
                plus="+" in flags and letter != "v",
                minus=minus,
                sharp="#" in flags and letter != "v",
                space=" " in flags,
                zero="0" in flags and not minus,
                width=None if width is None else abs(width),
                precision=precision,
                named="+" in flags and letter == "v",
                syntax="#" in flags and letter == "v",
            )
            self.out.append(verb.show(self.arguments[self.argument]))
            self.argument += 1

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.offset)
        if found is None:
            return ""
        self.offset = found.end()
        return found.group()

    def _index(self) -> bool:
        """`[2]`: which argument comes next. Whether there was one."""
        found = _INDEX.match(self.text, self.offset)
        if found is None:
            if self.text.startswith("[", self.offset):
                self.reordered, self.good_index = True, False
                self.offset += 1
                return False
            return False
        self.reordered = True
        self.offset = found.end()
        number = int(found[1]) if _NUMBER.fullmatch(found[1]) and len(found[1]) < 7 else 0
        if 1 <= number <= len(self.arguments):
            self.argument = number - 1
            return True
        self.good_index = False
        return bool(_NUMBER.fullmatch(found[1]))

    def _width(self, after_index: bool) -> tuple[int | None, bool]:
        if self._match(re.compile(r"\*")):
            width = self._whole_argument()
            if width is None:
                self.out.append("%!(BADWIDTH)")
            return width, False
        digits = self._match(_NUMBER)
        if digits and after_index:
            self.good_index = False
        return self._bounded(digits), after_index

    def _precision(self, after_index: bool) -> tuple[int | None, bool]:
        if not self._match(re.compile(r"\.")):
            return None, after_index
        if after_index:
            self.good_index = False
        after_index = self._index()
        if self._match(re.compile(r"\*")):
            precision = self._whole_argument()
            if precision is not None and precision < 0:
                precision = None
            if precision is None:
                self.out.append("%!(BADPREC)")
            return precision, False
        return self._bounded(self._match(_NUMBER) or "0"), after_index

    def _whole_argument(self) -> int | None:
        if self.argument >= len(self.arguments):
            return None
        value = self.arguments[self.argument]
        self.argument += 1
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return self._bounded(str(abs(value)), negative=value < 0)

    @staticmethod
    def _bounded(digits: str, *, negative: bool = False) -> int | None:
        if not digits:
            return None
        if len(digits) > 7 or int(digits) > WIDEST:
            raise TemplateError(f"printf: a width above {WIDEST}")
        return -int(digits) if negative else int(digits)

    def _extra(self) -> str:
        rest = ", ".join(
            "<nil>" if value is None else f"{type_name(value)}={_SHOW.show(value)}"
            for value in self.arguments[self.argument :]
        )
        return f"%!(EXTRA {rest})"
