"""Machines that lack something, made by a prefix in front of the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BCC = ("bpf", "perfmon")
TRACEPOINTS = (*BCC, "dac_read_search")
UPROBES = (*TRACEPOINTS, "sys_admin")
EVERYTHING = (*UPROBES, "sys_ptrace")
USER = 65534


def as_user(*capabilities: str, uid: int = USER) -> list[str]:
    """An ordinary user with just these capabilities."""
    sets = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    prefix = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    return [*prefix, "--inh-caps", sets, "--ambient-caps", sets, "--bounding-set", sets]


def with_mounts(*commands: str) -> list[str]:
    """A mount namespace of its own, changed by shell commands."""
    script = " && ".join([*commands, 'exec "$@"'])
    return ["unshare", "--mount", "sh", "-ec", script, "sh"]


def without(*folders: str) -> list[str]:
    """A machine where these folders, if it has them, are empty."""
    return with_mounts(
        *(f"if [ -d {each} ]; then mount -t tmpfs none {each}; fi" for each in folders)
    )


def without_tracefs() -> list[str]:
    """A machine on which tracefs is not mounted and cannot be."""
    return without("/sys/kernel")


def without_bcc() -> list[str]:
    """The distribution's package removed: the link in the environment leads nowhere."""
    site = Path(sys.executable).parent.parent / "lib"
    folders = {str(link.resolve().parent) for link in site.glob("python3*/site-packages/bcc")}
    return without(*sorted(folders))


def without_headers() -> list[str]:
    """No kernel header, no module, no build tree, no configuration of the kernel."""
    return without(
        "/lib/modules",
        "/usr/src",
        "/usr/include/linux",
        "/usr/include/asm-generic",
        "/usr/include/x86_64-linux-gnu/asm",
        "/usr/include/aarch64-linux-gnu/asm",
    )


def skip_unless_reachable(prefix: list[str], folder: Path) -> None:
    """Skip where that command cannot run us at all: a checkout below /root, no namespaces."""
    trial = subprocess.run(
        [*prefix, sys.executable, "-c", "import engine, probes"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if trial.returncode != 0:
        pytest.skip(f"cannot be tried here: {trial.stderr.strip().splitlines()[-1]}")
