"""The agent as a process of its own, and the receivers that it delivers to."""

from __future__ import annotations

import email
import email.policy
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiosmtpd.controller import Controller

from rules.packs import shipped
from rules.scaling import divide_durations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STALLWATCH = Path(sys.executable).with_name("stallwatch")
WAIT_SECONDS = 180


def wait_until(condition: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
    """What the condition returns once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(0.1)
    return found


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def fast_packs(folder: Path, divisor: int = 10) -> list[Path]:
    """The shipped packs with every duration divided, written into a folder."""
    packs = []
    for pack in shipped():
        fast = folder / pack.name
        fast.write_text(divide_durations(pack.read_text(), divisor))
        packs.append(fast)
    return packs


class Webhook:
    """A real HTTP server that keeps what it is sent. `answer` is its status."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.answer = 200
        self.before_answer: Callable[[dict[str, Any]], None] = lambda message: None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.headers.append(dict(self.headers))
                outer.messages.append(body)
                outer.before_answer(body)
                self.send_response(outer.answer)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/alerts"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def alerts(self, name: str, status: str, task_id: str) -> list[dict[str, Any]]:
        """A task's alerts of that name and status, in the order in which they came."""
        wanted = (name, status, task_id)
        return [
            alert
            for message in self.messages
            for alert in message["alerts"]
            if (alert["labels"]["alertname"], alert["status"], alert["labels"].get("task_id"))
            == wanted
        ]

    def close(self) -> None:
        """Stop listening."""
        self.server.shutdown()
        self.server.server_close()


class Mailbox:
    """A real SMTP server that keeps what it is sent."""

    def __init__(self) -> None:
        self.mails: list[email.message.EmailMessage] = []
        self._controller = Controller(self, hostname="127.0.0.1", port=free_port())
        self._controller.start()
        self.smarthost = f"127.0.0.1:{self._controller.port}"

    async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        parsed = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.mails.append(parsed)
        return "250 OK"

    def about(self, *words: str) -> list[email.message.EmailMessage]:
        """Mails whose subject has all the words."""
        return [mail for mail in self.mails if all(word in str(mail["subject"]) for word in words)]

    def close(self) -> None:
        """Stop listening."""
        self._controller.stop()


@dataclass
class AgentProcess:
    """`stallwatch run` in a folder of its own, a second standing for ten.

    `settings`: more of the configuration, over what is said here.
    """

    folder: Path
    rules: list[Path]
    webhook: Webhook | None = None
    mailbox: Mailbox | None = None
    seconds: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    probes: dict[str, dict[str, object]] = field(default_factory=dict)
    queue_size: int = 10_000
    settings: dict[str, object] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None

    @property
    def recording(self) -> Path:
        """The folder of the recording."""
        return self.folder / "state" / "recording"

    @property
    def log(self) -> str:
        """What the agent printed."""
        return (self.folder / "agent.log").read_text()

    def start(self, *prefix: str) -> None:
        """Start, and wait until the agent is ready. `prefix` stands in front of the command."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "stallwatch.yaml").write_text(self._config())
        with (self.folder / "agent.log").open("a") as log:
            self.process = subprocess.Popen(
                [*prefix, str(STALLWATCH), "run", "--config", str(self.folder / "stallwatch.yaml")],
                stdout=log,
                stderr=log,
                text=True,
                env={**os.environ, **self.environment},
            )
        wait_until(self._ready, f"the agent to be ready\n{self.log}")

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit status (0 if it never ran)."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(60)

    def get(self, path: str) -> str:
        """The body of an answer of the HTTP API."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """An instant query against the running agent."""
        query = urllib.parse.quote(expression)
        data = json.loads(self.get(f"/api/v1/query?query={query}"))["data"]
        return [(row["metric"], float(row["value"][1])) for row in data["result"]]

    def alerts(self) -> list[dict[str, Any]]:
        """Active alerts."""
        found: list[dict[str, Any]] = json.loads(self.get("/api/v1/alerts"))["data"]["alerts"]
        return found

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        try:
            return bool(self.get("/-/ready"))
        except OSError:
            return False

    def _config(self) -> str:
        integrations: dict[str, object] = {"name": "oncall"}
        if self.webhook is not None:
            integrations["webhook_configs"] = [{"url": self.webhook.url}]
        if self.mailbox is not None:
            integrations["email_configs"] = [
                {
                    "to": "oncall@example.com",
                    "from": "stallwatch@example.com",
                    "smarthost": self.mailbox.smarthost,
                    "require_tls": False,
                }
            ]
        told = len(integrations) > 1
        # JSON is YAML.
        return json.dumps(
            {
                "listen": f"127.0.0.1:{self.port}",
                "state_dir": str(self.folder / "state"),
                "node": "node-1",
                "flush_interval": f"{self.seconds}s",
                "evaluation_interval": f"{self.seconds}s",
                "rule_files": [str(path) for path in self.rules],
                "queue": {"size": self.queue_size},
                "probes": self.probes,
                **({"receivers": [integrations]} if told else {}),
                **self.settings,
            },
            indent=2,
        )


def dry_run(rules: list[Path], data: Path) -> dict[str, Any]:
    """`stallwatch dry-run --format json` over a recording."""
    done = subprocess.run(
        [
            *(str(STALLWATCH), "dry-run", "--format", "json"),
            *("--rules", *map(str, rules), "--data", str(data)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def build_nvml(folder: Path) -> Path:
    """Compile the stand-in for libnvidia-ml.so.1; the folder to put on LD_LIBRARY_PATH."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, "a compiler is needed for the NVML stand-in: apt-get install gcc"
    source = Path(__file__).with_name("stand_ins") / "nvml.c"
    library = folder / "libnvidia-ml.so.1"
    soname = "-Wl,-soname,libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", soname, "-o", str(library), str(source)], check=True
    )
    return folder
