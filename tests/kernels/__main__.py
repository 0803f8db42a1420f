"""Run every test marked `each_kernel` on Debian's 5.10, 6.1 and 6.12.

    python -m tests.kernels [--kernel 5.10] [--write] [FILE...]

FILE: test files, by default all that have marked tests. --write puts the table into
probes/README.md. Needs root, qemu-system-x86, busybox-static, kmod and virtme-ng
(scripts/setup.sh --dev --kernels).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.kernels.machine import ROOT, BootError, Run, boot_and_test
from tests.kernels.outcomes import into_document, table
from tests.kernels.packages import RELEASES, PackageError, cache_folder, unpacked

DOCUMENT = ROOT / "probes/README.md"


def marked_files() -> list[str]:
    """Test files with a marked test, by pytest's own word; also writes their bytecode."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "each_kernel", "tests"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    files = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    if not files:
        raise SystemExit(f"no test is marked each_kernel:\n{done.stdout}{done.stderr}")
    return sorted(files)


def main() -> int:
    """0 when every test passed or was skipped for a reason on every kernel."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--kernel", action="append", choices=[each.kernel for each in RELEASES])
    parser.add_argument("--write", action="store_true", help="put the table into probes/README.md")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    files = args.files or marked_files()
    runs: dict[str, Run] = {}
    for release in RELEASES:
        if args.kernel and release.kernel not in args.kernel:
            continue
        began = time.monotonic()
        try:
            image = unpacked(release)
            run = boot_and_test(image, files, cache_folder() / "logs" / release.kernel)
        except (PackageError, BootError) as error:
            print(f"{release.kernel} ({release.name}): {error}", file=sys.stderr)
            return 2
        runs[f"{run.release}"] = run
        print(run.log, f"{run.release}: {time.monotonic() - began:.0f} s", sep="\n", flush=True)
    block = table({name: run.outcomes for name, run in runs.items()})
    print(block)
    if args.write:
        text = into_document(DOCUMENT.read_text(encoding="utf-8"), block)
        Path(DOCUMENT).write_text(text, encoding="utf-8")
    failed = any(each.state == "failed" for run in runs.values() for each in run.outcomes)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
