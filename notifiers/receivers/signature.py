"""A webhook's signature: that a body is ours, unchanged, and fresh.

The header holds `sha256=` and the hex HMAC-SHA256 of the timestamp header, a dot and the body, so
that whoever replays a message cannot give it a new time.
"""

from __future__ import annotations

import hashlib
import hmac

SIGNATURE_HEADER = "X-Stallwatch-Signature"
TIMESTAMP_HEADER = "X-Stallwatch-Timestamp"


def signed_headers(secret: str, body: bytes, unix_seconds: int) -> dict[str, str]:
    """The two headers of a body that is sent now."""
    stamp = str(unix_seconds)
    digest = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {TIMESTAMP_HEADER: stamp, SIGNATURE_HEADER: f"sha256={digest}"}
