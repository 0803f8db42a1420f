"""A lasting trouble, told when it begins and when it is over, not at each try."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


class Trouble:
    """`what` cannot be done, as a log says it. One thread uses it."""

    def __init__(self, logger: logging.Logger, what: str) -> None:
        self._logger = logger
        self._what = what
        self._told = ""

    def met(self, error: Exception) -> bool:
        """It failed again; told, and True, if it is another error than the last one."""
        is_new = str(error) != self._told
        if is_new:
            self._logger.warning("%s, trying again until it succeeds: %s", self._what, error)
        self._told = str(error)
        return is_new

    def over(self) -> None:
        """It succeeded."""
        if self._told:
            self._logger.warning("%s: this is over", self._what)
        self._told = ""
