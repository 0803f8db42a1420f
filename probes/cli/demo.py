"""`stallwatch demo`: see it work in a minute and a half, without a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rules.errors import StallwatchError

if TYPE_CHECKING:
    from probes.demo.errors import NotHereError
    from probes.demo.screen import Screen

SHORTEST_SECONDS, LONGEST_SECONDS = 5, 3600


class DemoCommand:
    """Two ranks, a link that begins to lose packets, and the alert about it."""

    summary = "show a real alert: two ranks, a link that begins to lose packets, the real agent"
    example = "sudo stallwatch demo"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument(
            "--seconds",
            type=float,
            default=90,
            metavar="N",
            help="wait this long for the alert, and again for its end (default 90)",
        )
        parser.add_argument(
            "--keep-recording",
            metavar="DIR",
            help="keep what was recorded, and the rules, in a new folder, to dry-run afterwards",
        )
        parser.add_argument(
            "--replay", action="store_true", help="replay the bundled recording, even as root"
        )
        parser.add_argument(
            "--speed",
            type=float,
            default=10,
            metavar="N",
            help="how many times faster a replay goes than it happened, 0 without pauses "
            "(default 10)",
        )
        # For developers: makes the bundled recording anew (see probes/demo/bundle.py).
        parser.add_argument("--save-recording", metavar="DIR", help=argparse.SUPPRESS)

    def run(self, args: argparse.Namespace) -> int:
        """Play live, or say why not and replay. Exit 1 when no alert fired, or resolved, in time.

        Raises StallwatchError.
        """
        from probes.demo.errors import NotHereError
        from probes.demo.screen import Screen

        _check(args)
        screen = Screen()
        screen.plain("stallwatch demo: a job on a link that begins to lose packets (times are UTC)")
        try:
            if args.replay:
                return _replay(screen, args.speed, "")
            return _live(screen, args)
        except NotHereError as error:
            if args.keep_recording or args.save_recording:
                raise
            return _replay(screen, args.speed, _reason(error))
        finally:
            screen.clear()


def _check(args: argparse.Namespace) -> None:
    """Raises StallwatchError for values that make no sense."""
    if not SHORTEST_SECONDS <= args.seconds <= LONGEST_SECONDS:
        raise StallwatchError(
            f"stallwatch demo: --seconds {args.seconds:g}: must be from {SHORTEST_SECONDS} to "
            f"{LONGEST_SECONDS}"
        )
    if not 0 <= args.speed < float("inf"):
        raise StallwatchError(f"stallwatch demo: --speed {args.speed:g}: must be 0 or more")
    keep = args.keep_recording and Path(args.keep_recording)
    if keep and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise StallwatchError(
            f"stallwatch demo: --keep-recording {keep}: exists and is not an empty folder\n"
            "    hint: name a folder that is not there yet"
        )


def _live(screen: Screen, args: argparse.Namespace) -> int:
    import tempfile

    from probes.demo import live

    live.require_privileges()
    if args.save_recording:
        from probes.demo.bundle import NODE, save_bundle

        with tempfile.TemporaryDirectory(prefix="stallwatch-take-") as folder:
            take = live.play(screen, args.seconds, Path(folder), NODE)
            if take.resolved_ms:
                save_bundle(Path(folder) / "recording", take, Path(args.save_recording))
        return 0 if take.resolved_ms else 1
    keep = None if args.keep_recording is None else Path(args.keep_recording).resolve()
    take = live.play(screen, args.seconds, keep)
    if keep is not None:
        screen.plain(
            "",
            "The same from the recording:",
            f"  stallwatch dry-run --rules {keep}/rules --data {keep}/recording",
        )
    if not take.resolved_ms:
        return 1
    screen.plain("", "Next: 'sudo stallwatch run' watches this machine with the shipped rules.")
    return 0


def _replay(screen: Screen, speed: float, reason: str) -> int:
    from probes.demo import replay

    told = replay.introduction()
    screen.plain(f"{reason}: {told}" if reason else told)
    if speed not in {0, 1}:
        screen.plain(f"({speed:g} times as fast as it happened; the times are the recording's)")
    replay.play(screen, speed)
    screen.plain(
        "", "Next: 'sudo stallwatch demo' shows it live; 'stallwatch doctor' what it needs."
    )
    return 0


def _reason(error: NotHereError) -> str:
    return f"{error.reason} ({error.mend})" if error.mend else error.reason
