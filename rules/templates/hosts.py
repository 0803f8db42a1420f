"""`stripPort` and `stripDomain`: hosts as Go's net.SplitHostPort takes them apart."""

from __future__ import annotations

import ipaddress


def strip_port(text: str) -> str:
    """The host of `host:port`; anything else as it is."""
    parts = split_host_port(text)
    return text if parts is None else parts[0]


def strip_domain(text: str) -> str:
    """The first label of a name, with its port; an address stays whole."""
    host, port = split_host_port(text) or (text, "")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        if "%" not in host:  # Go reads no zone here
            return text
    host = host.split(".", 1)[0]
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_host_port(text: str) -> tuple[str, str] | None:
    """Host and port of `host:port` or `[host]:port`; None for any other form."""
    colon = text.rfind(":")
    if colon < 0:
        return None
    if text.startswith("["):
        closing = text.find("]")
        if closing + 1 != colon:
            return None
        host, rest = text[1:closing], text[1:closing] + text[colon + 1 :]
    else:
        host, rest = text[:colon], text
        if ":" in host:
            return None
    if "[" in rest or "]" in rest:
        return None
    return host, text[colon + 1 :]
