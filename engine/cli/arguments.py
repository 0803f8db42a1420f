"""Arguments of a subcommand: what is wrong with them in one line, not below a wall of usage."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from rules.errors import StallwatchError

# Patterns of what argparse says, compiled only where it says something.
_UNKNOWN = r"unrecognized arguments: (\S+)"
_CHOICE = r"invalid choice: '([^']*)' \(choose from (.*)\)"
_QUOTED = r"[\w.:-]+"
# To ask for the terminal's width imports shutil, and each argument that is added makes a formatter.
_UNSHOWN_COLUMNS = 80


class _Unshown(argparse.RawDescriptionHelpFormatter):
    """The formatter that only looks an argument over."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_UNSHOWN_COLUMNS)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose mistakes are StallwatchErrors with a hint."""

    def __init__(self, prog: str, *, description: str, epilog: str) -> None:
        super().__init__(
            prog,
            description=description,
            epilog=epilog,
            formatter_class=_Unshown,
            allow_abbrev=False,
        )

    def read(self, args: list[str]) -> argparse.Namespace:
        """The values. An argument that takes any number takes those behind options too."""
        if any(action.nargs == argparse.ZERO_OR_MORE for action in self._get_positional_actions()):
            return self.parse_intermixed_args(args)
        return self.parse_args(args)

    def format_help(self) -> str:
        """The help, as wide as the terminal."""
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage; argparse calls it with its own words."""
        what, meant = message, ""
        if unknown := re.match(_UNKNOWN, message):
            given = unknown[1].partition("=")[0]
            what = f"there is no {'option' if given.startswith('-') else 'argument'} '{given}'"
            options = [text for text in self._option_string_actions if text.startswith("--")]
            meant = _nearest(given, options)
        elif choice := re.search(_CHOICE, message):
            meant = _nearest(choice[1], re.findall(_QUOTED, choice[2]))
        hint = f"did you mean '{meant}'?" if meant else f"'{self.prog} --help' shows an example"
        raise StallwatchError(f"{self.prog}: {what}\n    hint: {hint}")


def _nearest(given: str, known: list[str]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(given, known, n=1)), "")
