"""scripts/setup.sh in a made-up system: its own Python, bcc and apt-get, nothing downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Tools that the script and the stand-ins call; no Python among them.
TOOLS = [
    "sh",
    "cat",
    "chmod",
    "cksum",
    "cp",
    "dirname",
    "find",
    "grep",
    "ln",
    "mkdir",
    "mktemp",
    "rm",
    "tail",
]
PYTHON = """#!/bin/sh
# A Python that makes venvs like itself and whose pip only notes what it was asked.
echo "$0 $* PYTHONPATH=${PYTHONPATH-}" >>"$CALLS"
case "$*" in
*ensurepip*) exit FITS ;;
-V) echo Python 3.11.2 ;;
"-m venv .venv")
  mkdir -p .venv/bin .venv/site
  cp "$0" .venv/bin/python
  echo "VIRTUAL_ENV='$(pwd -P)/.venv'" >.venv/bin/activate ;;
*sysconfig*) echo .venv/site ;;
*"pip --disable"*install*)
  if [ -n "${PIP_SAYS-}" ]; then echo "$PIP_SAYS"; exit 1; fi ;;
*"${CANNOT-nothing}"*) echo 'Permission denied'; exit 1 ;;
esac
"""
APT = """#!/bin/sh
echo "apt-get $*" >>"$CALLS"
case "$*" in *"${LACKS-nothing}"*) echo "E: Unable to locate package $LACKS"; exit 100 ;; esac
case "$*" in *" update") exit "${UPDATE-0}" ;; esac
case "$*" in *python3-venv*)
  mkdir -p "$SYSTEM/bin"
  cp "$DISTRIBUTION" "$SYSTEM/bin/python3" ;; esac
case "$*" in *python3-bpfcc*)
  mkdir -p "$SYSTEM/lib/python3/dist-packages/bcc"
  echo >"$SYSTEM/lib/python3/dist-packages/bcc/libbcc.py" ;; esac
"""


@dataclass
class Machine:
    """A clone in a folder with a space in its name, on a system where nothing is installed."""

    folder: Path

    def __post_init__(self) -> None:
        (self.clone / "scripts").mkdir(parents=True)
        (self.folder / "bin").mkdir()
        for name in TOOLS:
            found = shutil.which(name)
            assert found, name
            (self.folder / "bin" / name).symlink_to(found)
        for name in ("ip", "nft"):
            self.tool(name, "#!/bin/sh\n")
        self.user(0)
        shutil.copy(ROOT / "scripts/setup.sh", self.clone / "scripts")
        shutil.copy(ROOT / "pyproject.toml", self.clone)

    @property
    def clone(self) -> Path:
        return self.folder / "a clone"

    @property
    def venv(self) -> Path:
        return self.clone / ".venv"

    def tool(self, name: str, text: str) -> Path:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def user(self, uid: int) -> None:
        self.tool("id", f"#!/bin/sh\necho {uid}\n")

    def apt(self) -> None:
        self.tool("apt-get", APT)
        self.python("distribution", fits=True)

    def python(self, name: str, *, fits: bool) -> Path:
        return self.tool(name, PYTHON.replace("FITS", "0" if fits else "1"))

    def set_up(self, *options: str, **environment: str) -> tuple[int, list[str], list[str]]:
        """Exit status, what was said, and what Python and apt-get were asked in this run."""
        calls = self.folder / "calls"
        calls.write_text("")
        done = subprocess.run(
            ["sh", str(self.clone / "scripts/setup.sh"), *options],
            cwd="/",
            env={
                "PATH": str(self.folder / "bin"),
                "HOME": str(self.folder),
                "STALLWATCH_SETUP_SYSTEM": str(self.folder / "usr"),
                "SYSTEM": str(self.folder / "usr"),
                "DISTRIBUTION": str(self.folder / "bin/distribution"),
                "CALLS": str(calls),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == ""
        return done.returncode, done.stderr.splitlines(), calls.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_root_on_a_bare_debian_gets_everything_from_the_distribution(machine: Machine) -> None:
    machine.apt()
    status, said, calls = machine.set_up()
    system = machine.folder / "usr"
    assert status == 0
    assert said == [
        "setup: installing from the distribution: python3-bpfcc python3-venv ",
        f"setup: making .venv with {system}/bin/python3 (Python 3.11.2)",
        "setup: installing stallwatch and what it needs",
    ]
    install = "install -y --no-install-recommends python3-bpfcc python3-venv"
    assert [call.partition("=120 ")[2] for call in calls[:2]] == ["update", install]
    assert (machine.venv / "site/bcc").resolve() == system / "lib/python3/dist-packages/bcc"


def test_alertmanager_is_installed_and_its_service_never_started(machine: Machine) -> None:
    machine.apt()
    policy = machine.folder / "usr/sbin/policy-rc.d"
    policy.parent.mkdir(parents=True)
    for name in ("gdb", "strace", "bpftrace", "perf"):
        machine.tool(name, "#!/bin/sh\n")
    for name in ("deb-systemd-helper", "update-rc.d"):
        machine.tool(name, f'#!/bin/sh\necho "{name} $*" >>"$CALLS"\n')
    forbids = f'case "$*" in *alertmanager*) cat "{policy}" >>"$CALLS" ;; esac\n'
    machine.tool("apt-get", APT + forbids)
    status, said, calls = machine.set_up("--torch")
    assert status == 0
    assert "setup: installing prometheus-alertmanager, its service stays off" in said
    begin = next(place for place, call in enumerate(calls) if " prometheus-alertmanager" in call)
    assert calls[begin + 1 : begin + 5] == [
        "#!/bin/sh",
        "exit 101",
        "deb-systemd-helper disable prometheus-alertmanager.service",
        "update-rc.d prometheus-alertmanager disable",
    ]
    assert not policy.exists()
    machine.tool("prometheus-alertmanager", "#!/bin/sh\n")
    _, _, calls = machine.set_up("--torch")
    assert not [call for call in calls if " prometheus-alertmanager" in call]


def test_a_second_run_installs_nothing(machine: Machine) -> None:
    machine.apt()
    machine.set_up()
    status, said, calls = machine.set_up()
    assert (status, said) == (0, [])
    assert not [call for call in calls if " -m " in call or "apt-get" in call]


def test_our_modules_are_compiled_when_one_has_changed(machine: Machine) -> None:
    machine.apt()
    (machine.clone / "rules").mkdir()
    source = machine.clone / "rules/model.py"
    source.touch()

    def compiled() -> list[str]:
        return [call for call in machine.set_up()[2] if " -m compileall -q " in call]

    assert len(compiled()) == 1
    assert compiled() == []
    changed = (machine.venv / ".compiled").stat().st_mtime_ns + 1_000_000_000
    os.utime(source, ns=(changed, changed))
    assert len(compiled()) == 1


def test_a_tree_that_cannot_be_written_stays_as_it_is(machine: Machine) -> None:
    machine.apt()
    machine.set_up()
    (machine.venv / ".compiled").unlink()
    status, said, calls = machine.set_up(CANNOT="compileall")
    assert (status, said) == (0, [])
    assert [call for call in calls if "compileall" in call]


def test_what_the_tests_need_has_what_the_agent_needs(machine: Machine) -> None:
    machine.apt()
    _, _, calls = machine.set_up("--dev")
    assert [call for call in calls if "install --editable . --group dev" in call]
    assert machine.set_up()[:2] == (0, [])


def test_the_agents_set_up_is_not_enough_for_the_tests(machine: Machine) -> None:
    machine.apt()
    machine.set_up()
    _, said, _ = machine.set_up("--dev")
    assert said == ["setup: installing stallwatch and what it needs (dev)"]


def test_an_ordinary_user_is_told_what_to_install_and_gets_the_rest(machine: Machine) -> None:
    machine.apt()
    machine.user(1000)
    machine.python("python3", fits=True)
    status, said, calls = machine.set_up()
    assert status == 0
    assert said == [
        "setup: missing from the distribution: python3-bpfcc ",
        (
            "setup:   mend: as root, apt-get install python3-bpfcc"
            " (Fedora: python3-bcc iproute nftables)"
        ),
        f"setup: making .venv with {machine.folder}/bin/python3 (Python 3.11.2)",
        "setup: installing stallwatch and what it needs",
        "setup: bcc is not installed: eBPF probes stay off, the rest runs",
    ]
    assert not [call for call in calls if call.startswith("apt-get")]


def test_root_without_apt_is_told_the_same(machine: Machine) -> None:
    machine.python("python3.12", fits=True)
    status, said, _ = machine.set_up()
    assert status == 0
    assert said[0] == "setup: missing from the distribution: python3-bpfcc "


def test_the_distributions_python_comes_before_one_on_the_path(machine: Machine) -> None:
    machine.apt()
    machine.python("python3", fits=True)
    (machine.folder / "usr/bin").mkdir(parents=True)
    shutil.copy(machine.folder / "bin/distribution", machine.folder / "usr/bin/python3")
    _, said, _ = machine.set_up()
    assert f"setup: making .venv with {machine.folder}/usr/bin/python3 (Python 3.11.2)" in said


def test_a_python_that_does_not_fit_is_passed_over(machine: Machine) -> None:
    machine.apt()
    machine.python("python3", fits=False)  # 3.14, or a shim without a Python behind it
    _, said, _ = machine.set_up()
    assert f"setup: making .venv with {machine.folder}/usr/bin/python3 (Python 3.11.2)" in said


def test_without_a_python_that_fits_it_ends_with_the_mend(machine: Machine) -> None:
    machine.user(1000)
    machine.python("python3", fits=False)
    status, said, _ = machine.set_up()
    assert status == 2
    assert said[-2:] == [
        "setup: no Python 3.10 to 3.13 that can make a venv",
        "setup:   mend: apt-get install python3-venv, or PYTHON=/path/to/python3 make venv",
    ]


def test_a_python_that_was_asked_for_is_taken_or_refused(machine: Machine) -> None:
    machine.apt()
    good, bad = machine.python("mine", fits=True), machine.python("old", fits=False)
    status, said, _ = machine.set_up(PYTHON=str(bad))
    assert (status, said[-1]) == (
        2,
        f"setup: PYTHON={bad} is not a Python 3.10 to 3.13 with venv and pip",
    )
    _, said, _ = machine.set_up(PYTHON=str(good))
    assert f"setup: making .venv with {good} (Python 3.11.2)" in said


@pytest.mark.parametrize("broken", ["interrupted", "moved", "python gone"])
def test_a_venv_that_cannot_be_used_is_made_anew(machine: Machine, broken: str) -> None:
    machine.apt()
    machine.set_up()
    if broken == "interrupted":
        (machine.venv / "bin/python").write_text("#!/bin/sh\nexit 1\n")
    elif broken == "moved":
        (machine.venv / "bin/activate").write_text("VIRTUAL_ENV=/somewhere/else/.venv\n")
    else:
        (machine.venv / "bin/python").unlink()
    status, said, _ = machine.set_up()
    assert status == 0
    assert [line.partition(" with ")[0] for line in said] == [
        "setup: making .venv",
        "setup: installing stallwatch and what it needs",
    ]


def test_an_install_that_was_interrupted_is_taken_up_again(machine: Machine) -> None:
    machine.apt()
    assert machine.set_up(PIP_SAYS="ERROR: killed")[0] == 2
    status, said, _ = machine.set_up()
    assert (status, said) == (0, ["setup: installing stallwatch and what it needs"])


@pytest.mark.parametrize(
    ("pip_says", "complaint", "mend"),
    [
        (
            (
                "WARNING: Retrying after connection broken by 'NewConnectionError(...)'\n"
                "ERROR: No matching distribution found for numpy"
            ),
            "the Python package index cannot be reached (.venv/set-up.log has all of it)",
            "a way to it: HTTPS_PROXY=..., or a mirror by PIP_INDEX_URL=...",
        ),
        (
            "WARNING: Retrying after connection broken by 'SSLError(CERTIFICATE_VERIFY_FAILED)'",
            "the Python package index shows a certificate that is not trusted",
            (
                "PIP_CERT=/path/to/authorities.pem (a proxy in between?);"
                " .venv/set-up.log has all of it"
            ),
        ),
        (
            "Collecting numpy\nERROR: No matching distribution found for numpy>=9\n",
            "ERROR: No matching distribution found for numpy>=9",
            ".venv/set-up.log has all of it",
        ),
    ],
)
def test_a_refused_install_is_one_line_and_its_mend(
    machine: Machine, pip_says: str, complaint: str, mend: str
) -> None:
    machine.apt()
    status, said, _ = machine.set_up(PIP_SAYS=pip_says)
    assert status == 2
    assert said[-2:] == [
        f"setup: stallwatch could not be installed: {complaint}",
        f"setup:   mend: {mend}",
    ]
    assert (machine.venv / "set-up.log").read_text().strip() == pip_says.strip()


def test_a_package_that_the_distribution_lacks_does_not_keep_the_others_away(
    machine: Machine,
) -> None:
    machine.apt()
    status, said, _ = machine.set_up(LACKS="python3-bpfcc")
    assert status == 0
    assert said[1:3] == [
        (
            "setup: could not install python3-bpfcc, going on without:"
            " E: Unable to locate package python3-bpfcc"
        ),
        "setup:   mend: apt-get install python3-bpfcc (on Ubuntu some are in 'universe')",
    ]
    assert said[-1] == "setup: bcc is not installed: eBPF probes stay off, the rest runs"


def test_without_a_network_that_is_said_once(machine: Machine) -> None:
    machine.tool("apt-get", "#!/bin/sh\necho 'W: Failed to fetch http://packages'\nexit 100\n")
    machine.python("python3", fits=True)
    status, said, _ = machine.set_up()
    assert status == 0
    assert said[2:4] == [
        (
            "setup: could not install python3-bpfcc: the distribution's package sources"
            " cannot be reached"
        ),
        "setup:   mend: a way to them (a proxy: Acquire::http::Proxy in /etc/apt/apt.conf.d)",
    ]


def test_a_package_source_that_is_down_does_not_stop_it(machine: Machine) -> None:
    machine.apt()
    status, said, _ = machine.set_up(UPDATE="100")
    assert status == 0
    assert "setup: apt-get update failed, going on with the lists that are there" in said


def test_the_callers_pythonpath_does_not_reach_the_venv(machine: Machine) -> None:
    machine.apt()
    _, _, calls = machine.set_up(PYTHONPATH="/elsewhere", PYTHONHOME="/nowhere")
    assert len([call for call in calls if call.endswith(" PYTHONPATH=")]) > 3
    assert not [call for call in calls if "/elsewhere" in call]


def test_an_option_that_does_not_exist_is_refused(machine: Machine) -> None:
    status, said, _ = machine.set_up("--devel")
    assert status == 2
    assert said == [
        "setup: unknown option --devel",
        "setup:   mend: scripts/setup.sh [--dev] [--torch] [--kernels]",
    ]
