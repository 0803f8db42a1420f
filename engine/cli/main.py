"""`stallwatch`: finds the subcommand by entry point and runs it.

Exit 0: done. 1: it ran and found something. 2: it could not run. No traceback reaches a user
unless STALLWATCH_DEBUG is set.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, cast

from engine.cli import installed
from engine.cli.arguments import Parser
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.protocols import Command

DESCRIPTION = "On-node alerting and anomaly detection for AI training and inference clusters."
# What a shell reports for a command that SIGINT or SIGPIPE ended.
INTERRUPTED = 130
CLOSED_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns its exit status."""
    args = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    try:
        return _dispatch(args)
    except StallwatchError as error:
        _complain(str(error))
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has had enough.
        _abandon_stdout()
        return CLOSED_PIPE
    except OSError as error:
        if "STALLWATCH_DEBUG" in os.environ:
            raise
        _abandon_stdout()
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"stallwatch: {where}{error.strerror or error}")
        return 2
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            # Up to Python 3.11 one that comes while a class is made is wrapped.
            return INTERRUPTED
        # The last line of defence: one line, not a traceback.
        if "STALLWATCH_DEBUG" in os.environ:
            raise
        _complain(
            f"stallwatch: internal error: {type(error).__name__}: {error}\n"
            "    hint: please report this; STALLWATCH_DEBUG=1 shows the traceback"
        )
        return 2


def _prepare_streams() -> None:
    """A closed stream swallows; a name that the terminal's encoding lacks is escaped."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the exit
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the exit
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _complain(text: str) -> None:
    """One error on standard error; where that takes nothing, the exit status has to say it."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _abandon_stdout() -> None:
    """Keep the interpreter from complaining at its exit about what cannot be written."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(args: list[str]) -> int:
    status = _run(args)
    # Here, not at the interpreter's exit: a full disk and a closed pipe have an exit status.
    sys.stdout.flush()
    return status


def _run(args: list[str]) -> int:
    if args[:1] == ["help"] and len(args) > 1:
        args = [*args[1:], "--help"]
    if not args or args[0] in {"-h", "--help", "help"}:
        print(_overview(installed.all_commands()))
        return 0 if args else 2
    name = "version" if args[0] == "--version" else args[0]
    # Other distributions' commands are looked for only where it is none of ours: that takes long.
    commands = installed.own_commands()
    if name not in commands:
        commands = installed.all_commands()
    if name not in commands:
        import difflib

        close = difflib.get_close_matches(name, commands, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "'stallwatch --help' lists the commands"
        raise StallwatchError(f"stallwatch: there is no command '{name}'\n    hint: {hint}")
    command = _load(commands[name])
    parser = Parser(
        f"stallwatch {name}",
        description=command.summary,
        epilog=f"example:\n  {command.example}",
    )
    command.configure(parser)
    return command.run(parser.read(args[1:]))


def _load(place: str) -> Command:
    """An instance of the command whose class is at `module:Class`."""
    module, _, name = place.partition(":")
    return cast("Command", getattr(import_module(module), name)())


def _overview(commands: dict[str, str]) -> str:
    width = max((len(name) for name in commands), default=0)
    lines = [f"{DESCRIPTION}\n", "usage: stallwatch COMMAND [OPTION ...]\n", "commands:"]
    lines += [f"  {name:<{width}}  {_summary(commands[name])}" for name in sorted(commands)]
    lines += ["", "example:", "  stallwatch run --rules rules/packs/comm.yaml"]
    return "\n".join(lines)


def _summary(place: str) -> str:
    try:
        return _load(place).summary
    except ImportError as error:
        return f"(cannot be loaded: {error})"


if __name__ == "__main__":
    sys.exit(main())
