"""Libraries whose debug lines hold secrets: urllib3 logs the path of each request."""

from __future__ import annotations

import logging


def silence_urllib3() -> None:
    """Let no line below an error out, however verbose the agent's own log is."""
    logging.getLogger("urllib3").setLevel(logging.ERROR)
