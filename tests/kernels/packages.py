"""Kernel packages of other Debian releases, fetched and unpacked without installing them."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# A release that is no longer supported moves from the first to the second.
MIRRORS = ("http://deb.debian.org", "http://archive.debian.org")


@dataclass(frozen=True)
class Release:
    """A Debian release and the kernel it came with."""

    name: str
    kernel: str


RELEASES = (Release("bullseye", "5.10"), Release("bookworm", "6.1"), Release("trixie", "6.12"))


class PackageError(Exception):
    """A package cannot be had; the text says which and why."""


def cache_folder() -> Path:
    """Where packages are kept: $STALLWATCH_KERNELS, else below the user's cache folder."""
    own = os.environ.get("STALLWATCH_KERNELS")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own) if own else Path(base) / "stallwatch-kernels"


def unpacked(release: Release) -> Path:
    """The kernel's image, its modules and headers unpacked beside it. Raises PackageError."""
    folder = cache_folder() / release.name
    found = _image(folder, release)
    if found is None:
        apt = _Apt(folder / "apt", release)
        _unpack(apt.download(apt.image()), folder / "root")
        found = _image(folder, release)
    if found is None:
        raise PackageError(f"no image of {release.kernel} in the package of {release.name}")
    _headers(folder, release, found.name.removeprefix("vmlinuz-"))
    return found


def _image(folder: Path, release: Release) -> Path | None:
    images = sorted((folder / "root/boot").glob(f"vmlinuz-{release.kernel}.*"))
    return images[-1] if images else None


def _headers(folder: Path, release: Release, version: str) -> None:
    """The headers of that very kernel, as a node would have them below /lib/modules."""
    if (folder / "root/usr/src" / f"linux-headers-{version}").exists():
        return
    apt = _Apt(folder / "apt", release)
    for name in (
        f"linux-headers-{version}",
        *apt.depends(f"linux-headers-{version}", r"headers-.*common"),
    ):
        _unpack(apt.download(name), folder / "root")


def _unpack(package: Path, root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    package.unlink()


class _Apt:
    """apt with a sources list and lists of its own: the machine's are not touched."""

    def __init__(self, folder: Path, release: Release) -> None:
        self._folder = folder
        self._release = release
        for each in ("lists/partial", "cache/archives/partial"):
            (folder / each).mkdir(parents=True, exist_ok=True)
        self._settings = {
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "Dir::Etc::sourcelist": folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Acquire::Check-Valid-Until": "false",  # the archive's lists are old
            "APT::Sandbox::User": "root",
        }
        self._update()

    def _update(self) -> None:
        words = ""
        for mirror in MIRRORS:
            name, signed = self._release.name, f"[signed-by={KEYRING}]"
            lines = [f"deb {signed} {mirror}/debian {name} main"]
            lines += [f"deb {signed} {mirror}/debian-security {name}-security main"]
            (self._folder / "sources.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
            done = self._run("apt-get", "update", "-qq", "--error-on=any")
            if done.returncode == 0:
                return
            words = done.stderr.strip()
        raise PackageError(f"the packages of {self._release.name} cannot be listed: {words}")

    def image(self) -> str:
        """The newest package with the release's own kernel."""
        return next(iter(self.depends("linux-image-amd64", rf"image-{self._release.kernel}")))

    def depends(self, name: str, pattern: str) -> list[str]:
        """What a package depends on, as far as the name has a pattern."""
        text = self._run("apt-cache", "depends", name).stdout
        found = [each for each in re.findall(r"Depends: (\S+)", text) if re.search(pattern, each)]
        if not found:
            raise PackageError(f"{name} of {self._release.name} depends on no package {pattern}")
        return found

    def download(self, name: str) -> Path:
        """The package's file."""
        for old in self._folder.glob("*.deb"):
            old.unlink()
        done = self._run("apt-get", "download", "-qq", name)
        files = list(self._folder.glob("*.deb"))
        if done.returncode != 0 or len(files) != 1:
            raise PackageError(f"{name} cannot be downloaded: {done.stderr.strip()}")
        return files[0]

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = [f"-o{name}={value}" for name, value in self._settings.items()]
        return subprocess.run(
            [program, *options, *arguments],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
