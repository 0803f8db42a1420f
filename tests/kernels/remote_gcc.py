"""gcc and g++ of the booted machine: the host compiles, a minute of emulation for each C++ file.

    python remote_gcc.py gcc ARGUMENT...

The host has the project's files under the same names; those that a test made are sent along, and
lie there under the same names too, below a folder that is nobody else's (guest.sh: --basetemp).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

TIMEOUT_SECONDS = 300


def main() -> int:
    """The compiler's exit status; its words go to standard error."""
    requests = Path(os.environ["STALLWATCH_KERNEL_REQUESTS"])
    command = sys.argv[1:]
    output = Path(command[command.index("-o") + 1])
    own = [each for each in command if each.startswith(f"{requests.parent.parent}/")]
    files = {each: Path(each).read_bytes().hex() for each in own if Path(each).is_file()}
    request = requests / f"gcc-{os.getpid()}"
    part = request.with_suffix(".new")
    part.write_text(
        json.dumps({"command": command, "output": str(output), "files": files}), encoding="utf-8"
    )
    part.rename(request.with_suffix(".json"))
    reply = request.with_suffix(".reply")
    until = time.monotonic() + TIMEOUT_SECONDS
    while not reply.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"the host did not compile within {TIMEOUT_SECONDS} s")
        time.sleep(0.1)
    answer = json.loads(reply.read_text(encoding="utf-8"))
    sys.stderr.write(answer["words"])
    if answer["status"] == 0:
        output.write_bytes(bytes.fromhex(answer["made"]))
        output.chmod(0o755)
    return int(answer["status"])


if __name__ == "__main__":
    sys.exit(main())
