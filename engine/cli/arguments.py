"""Arguments of a subcommand: what is wrong with them in one line, not below a wall of usage."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from rules.errors import StallwatchError

_UNKNOWN = re.compile(r"unrecognized arguments: (\S+)")
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_QUOTED = re.compile(r"[\w.:-]+")


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose mistakes are StallwatchErrors with a hint."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage; argparse calls it with its own words."""
        what, meant = message, ""
        if unknown := _UNKNOWN.match(message):
            given = unknown[1].partition("=")[0]
            what = f"there is no {'option' if given.startswith('-') else 'argument'} '{given}'"
            options = [text for text in self._option_string_actions if text.startswith("--")]
            meant = _nearest(given, options)
        elif choice := _CHOICE.search(message):
            meant = _nearest(choice[1], _QUOTED.findall(choice[2]))
        hint = f"did you mean '{meant}'?" if meant else f"'{self.prog} --help' shows an example"
        raise StallwatchError(f"{self.prog}: {what}\n    hint: {hint}")


def _nearest(given: str, known: list[str]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(given, known, n=1)), "")
