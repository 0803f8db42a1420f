"""`stallwatch silence`: keep notifications back for a while."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from engine.address import local_url
from engine.alerts.matchers import MatcherError, spelled
from engine.alerts.wording import inert
from engine.cli.alerts import checked_url
from engine.cli.durations import read_duration
from engine.cli.selection import login_name, read_matchers
from engine.config.loader import load_config
from engine.timestamps import format_rfc3339, parse_timestamp
from notifiers.api.silences import in_order
from notifiers.cli.silence_books import open_book
from notifiers.cli.silence_file import read_silences
from notifiers.silences.encoding import silence_to_json
from notifiers.silences.silence import Silence, SilenceError, check
from notifiers.silences.store import UnknownSilenceError
from notifiers.worker import unix_ms
from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from engine.alerts.matchers import Matcher
    from notifiers.cli.silence_books import SilenceBook

DEFAULT_DURATION = "1h"
ID_HINT = "'stallwatch silence list' shows the ids"


class SilenceCommand:
    """Add, list, expire and import silences, as amtool does."""

    summary = "keep notifications of some alerts back for a while, and see or end that"
    example = (
        "stallwatch silence add alertname=TcpRetransmitSpike 'node=~\"gpu-1[0-9]\"'"
        " --duration 2h --comment 'switch is replaced'"
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the actions and their options."""
        parser.add_argument(
            "action",
            choices=("add", "list", "expire", "import"),
            help="add: a silence for alerts that all matchers match; list: those that hold or will;"
            " expire: end some now; import: add those of a file",
        )
        parser.add_argument(
            "words",
            nargs="*",
            metavar="MATCHER|ID|FILE",
            help="add, list: matchers such as rank=3 or 'node=~\"gpu-.*\"', a word alone is the"
            " alertname; expire: ids; import: what 'amtool silence query -o json' or 'list --format"
            " json' wrote, - or nothing for standard input",
        )
        parser.add_argument("--comment", help="add: why; must be given")
        parser.add_argument("--author", help="add: who (default: the login name)")
        parser.add_argument("--duration", metavar="D", help="add: how long (default: 1h)")
        parser.add_argument("--start", metavar="TIME", help="add: RFC 3339 or unix (default: now)")
        parser.add_argument("--end", metavar="TIME", help="add: in place of --duration")
        parser.add_argument("--expired", action="store_true", help="list: those that have ended")
        parser.add_argument("--config", metavar="FILE", help="whose agent, and whose state")
        parser.add_argument("--url", help="another agent, such as http://gpu-17:9466")
        parser.add_argument("--state", help="state directory to use where no agent runs")
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Exit 1: some of what was asked was not done. Raises StallwatchError."""
        actions: dict[str, Callable[[argparse.Namespace], int]] = {
            "add": _add,
            "list": _list,
            "expire": _expire,
            "import": _import,
        }
        return actions[args.action](args)


def _add(args: argparse.Namespace) -> int:
    wanted = requested(args, unix_ms())
    book = _book(args)
    try:
        identity = book.add(wanted)
    except SilenceError as error:
        raise StallwatchError(f"stallwatch silence add: {error}") from error
    print(json.dumps({"silenceID": identity}) if args.format == "json" else identity)
    return 0


def _list(args: argparse.Namespace) -> int:
    wanted = matchers_of(args.words)
    now_ms = unix_ms()
    found = [
        one
        for one in in_order(_book(args).listed(), now_ms)
        if (one.state(now_ms) == "expired") == args.expired
        and all(matcher in one.matchers for matcher in wanted)
    ]
    if args.format == "json":
        print(json.dumps([silence_to_json(one, now_ms) for one in found], indent=2))
    else:
        kind = "expired " if args.expired else ""
        print("\n".join(_line(one, now_ms) for one in found) or f"no {kind}silences")
    return 0


def _expire(args: argparse.Namespace) -> int:
    if not args.words:
        raise StallwatchError(f"stallwatch silence expire: which?\n    hint: {ID_HINT}")
    book = _book(args)
    unknown = [identity for identity in args.words if not _found_and_ended(book, identity)]
    if args.format == "json":
        ended = [identity for identity in args.words if identity not in unknown]
        print(json.dumps({"expired": ended, "unknown": unknown}))
    for identity in unknown:
        print(f"stallwatch: there is no silence {inert(identity)}", file=sys.stderr)
    if unknown:
        print(f"    hint: {ID_HINT}", file=sys.stderr)
    return 1 if unknown else 0


def _found_and_ended(book: SilenceBook, identity: str) -> bool:
    try:
        book.expire(identity)
    except UnknownSilenceError:
        return False
    return True


def _import(args: argparse.Namespace) -> int:
    if len(args.words) > 1:
        raise StallwatchError("stallwatch silence import: one file, please")
    read = read_silences(args.words[0] if args.words else "-")
    now_ms = unix_ms()
    book = _book(args)
    made: list[str] = []
    refused = 0
    ended = [one for one in read if one.state(now_ms) == "expired"]
    for one in read:
        if one in ended:
            continue
        try:
            made.append(book.add(one))
        except StallwatchError as error:
            refused += 1
            print(f"stallwatch: {spelled(one.matchers)}: {error}", file=sys.stderr)
    if args.format == "json":
        counts = {"silenceIDs": made, "expired": len(ended), "refused": refused}
        print(json.dumps(counts))
    else:
        print("\n".join([*made, f"{len(made)} added, {len(ended)} had expired, {refused} refused"]))
    return 1 if refused else 0


def requested(args: argparse.Namespace, now_ms: int) -> Silence:
    """The silence that `add` asks for. Raises StallwatchError."""
    matchers = matchers_of(args.words)
    if not matchers:
        raise StallwatchError(
            "stallwatch silence add: for which alerts?\n    hint: name matchers, such as rank=3"
        )
    if not args.comment:
        raise StallwatchError(
            "stallwatch silence add: --comment is missing\n    hint: whoever wonders later reads it"
        )
    if args.duration and args.end:
        raise StallwatchError("stallwatch silence add: --duration or --end, not both")
    starts_at_ms = _time("--start", args.start, now_ms)
    ends_at_ms = _time("--end", args.end, 0)
    if not args.end:
        ends_at_ms = starts_at_ms + read_duration("--duration", args.duration or DEFAULT_DURATION)
    if ends_at_ms <= max(starts_at_ms, now_ms):
        when = "in the past" if ends_at_ms <= now_ms else "before it starts"
        end = format_rfc3339(max(0, ends_at_ms))
        raise StallwatchError(f"stallwatch silence add: it would end at {end}, {when}")
    author = args.author or login_name()
    wanted = Silence(
        "", matchers, starts_at_ms, ends_at_ms, created_by=author, comment=args.comment
    )
    try:
        check(wanted)
    except SilenceError as error:
        raise StallwatchError(f"stallwatch silence add: {error}") from error
    return wanted


def matchers_of(words: Sequence[str]) -> tuple[Matcher, ...]:
    """The matchers of arguments; one without an operator names an alert. Raises StallwatchError."""
    try:
        return read_matchers(words)
    except MatcherError as error:
        raise StallwatchError(f"stallwatch silence: {error}") from error


def _book(args: argparse.Namespace) -> SilenceBook:
    if args.url:
        book, _ = open_book(checked_url(args.url), None)
        return book
    config = load_config(args.config)
    folder = Path(args.state) if args.state else config.state_dir
    book, notice = open_book(local_url(config.listen), folder / "state.db")
    if notice:
        print(f"stallwatch: {notice}", file=sys.stderr)
    return book


def _time(option: str, text: str | None, default_ms: int) -> int:
    if not text:
        return default_ms
    try:
        return parse_timestamp(text)
    except ValueError as error:
        raise StallwatchError(f"stallwatch silence add: {option}: {error}") from error


def _line(silence: Silence, now_ms: int) -> str:
    state = silence.state(now_ms)
    edge = {
        "active": f"until {format_rfc3339(silence.ends_at_ms)}",
        "pending": f"from {format_rfc3339(silence.starts_at_ms)}"
        f" until {format_rfc3339(silence.ends_at_ms)}",
        "expired": f"since {format_rfc3339(silence.ends_at_ms)}",
    }[state]
    return (
        f"{silence.id}  {state} {edge}  {inert(spelled(silence.matchers), 500)}"
        f"  {inert(silence.created_by)}: {inert(silence.comment)}"
    )
