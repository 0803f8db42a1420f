"""Run every test marked `each_kernel` on Debian's 5.10, 6.1 and 6.12.

    python -m tests.kernels [--kernel 5.10] [--jobs 1] [--write] [FILE...]

FILE: test files, by default all that have marked tests. --write puts what the kernels said into the
table of probes/README.md, and leaves the columns of kernels that were not booted; with files, the
cells of other probes. --jobs: kernels booted at a time. Needs root, qemu-system-x86,
busybox-static, kmod and virtme-ng (scripts/setup.sh --dev --kernels).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from tests.kernels.machine import BootError, Run, boot_and_test
from tests.kernels.outcomes import column, into_document, merged, probe_of, read_columns, table
from tests.kernels.packages import RELEASES, PackageError, Release, cache_folder, unpacked
from tests.kernels.staging import ROOT, Stage, staged

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCUMENT = ROOT / "probes/README.md"


def main() -> int:
    """0 when every test passed or was skipped for a reason on every kernel."""
    args = _arguments()
    releases = [each for each in RELEASES if not args.kernel or each.kernel in args.kernel]
    try:
        for release in releases:
            unpacked(release)
    except PackageError as error:
        print(error, file=sys.stderr)
        return 2
    runs: list[Run] = []
    with staged() as stage, ThreadPoolExecutor(args.jobs) as pool:
        files = args.files or stage.marked
        if args.write:
            _refuse_halves(files, stage.marked)
        booted = [pool.submit(_run, each, stage, files, args.limit) for each in releases]
        for each in as_completed(booted):
            run = each.result()
            if run is not None:
                runs.append(run)
                if args.write:
                    _write(run, whole=not args.files)
    columns = [column(each.release, each.outcomes) for each in runs]
    print(table(merged([], columns, whole=True)))
    if len(runs) < len(releases):
        return 2
    states = {each.state for run in runs for each in run.outcomes}
    return 1 if states & {"failed", "not finished"} else 0


def _write(run: Run, *, whole: bool) -> None:
    """Each kernel's column as soon as it is known."""
    text = DOCUMENT.read_text(encoding="utf-8")
    columns = merged(read_columns(text), [column(run.release, run.outcomes)], whole=whole)
    DOCUMENT.write_text(into_document(text, table(columns)), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--kernel", action="append", choices=[each.kernel for each in RELEASES])
    # An emulated kernel keeps a core and a little busy.
    jobs = max(1, min(len(RELEASES), os.cpu_count() or 1))
    parser.add_argument("--jobs", type=int, default=jobs, help="kernels booted at a time")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one kernel")
    parser.add_argument("--write", action="store_true", help="put the table into probes/README.md")
    parser.add_argument("files", nargs="*")
    return parser.parse_args()


def _refuse_halves(files: Sequence[str], marked: Sequence[str]) -> None:
    """A cell of the table is all that a probe has."""
    probes = {probe_of(each) for each in files}
    missing = [each for each in marked if probe_of(each) in probes and each not in files]
    if missing:
        raise SystemExit(f"--write needs all files of a probe, and these too: {' '.join(missing)}")


def _run(release: Release, stage: Stage, files: Sequence[str], limit: float) -> Run | None:
    """None where nothing was reported; the reason is printed."""
    began = time.monotonic()
    try:
        keep = cache_folder() / "logs" / release.kernel
        run = boot_and_test(unpacked(release), stage, files, keep, limit)
    except (PackageError, BootError) as error:
        print(f"{release.kernel} ({release.name}): {error}", file=sys.stderr, flush=True)
        return None
    seconds = f"{run.release}: {time.monotonic() - began:.0f} s"
    print(run.log, seconds, sep="\n", flush=True)
    return run


if __name__ == "__main__":
    sys.exit(main())
