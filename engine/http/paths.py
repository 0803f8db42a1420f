"""Paths of the API that commands ask for."""

from __future__ import annotations

from typing import Final

EXPLAIN: Final = "/api/v1/explain"
NOTIFY: Final = "/api/v1/notify/"
MESSAGES: Final = f"{NOTIFY}messages"
RESEND: Final = f"{NOTIFY}resend"
ACKNOWLEDGE: Final = f"{NOTIFY}acknowledge"
WITHDRAW: Final = f"{NOTIFY}withdraw"
