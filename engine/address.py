"""`host:port`: where the agent listens, and how it is reached from this machine."""

from __future__ import annotations

import re

_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_HIGHEST_PORT = 65_535
# What a server listens on to be reached by every address, and one that it is reached by.
_EVERY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[v6]:port` (without its brackets) or `:port` (host "").

    Raises ValueError; what stands after "; " is the mend.
    """
    host, separator, port = text.rpartition(":")
    if not separator or not _PORT.fullmatch(port) or int(port) > _HIGHEST_PORT:
        raise ValueError(f"not an address: '{text}'; write host:port, such as 127.0.0.1:9466")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise ValueError(f"an IPv6 address stands in brackets: '[{host}]:{port}'")
    return host, int(port)


def local_url(listen: str) -> str:
    """The URL by which this machine reaches a server that listens on an address.

    Raises ValueError for what is no address.
    """
    host, port = parse_address(listen)
    host = _EVERY.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
