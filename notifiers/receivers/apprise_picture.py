"""Pictures as apprise takes them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from notifiers.pictures.picture import FILE_NAME

NEEDS = "matplotlib"


def checked_picture(wanted: bool) -> bool:
    """The setting. Raises ValueError where pictures are wanted and nothing can draw them."""
    if wanted and find_spec(NEEDS) is None:
        raise ValueError(
            f"a picture needs {NEEDS}, which is not installed; pip install 'stallwatch[pictures]'"
        )
    return wanted


def attached(picture: bytes) -> Any:
    """A PNG as apprise's attachment."""
    from apprise import AppriseAttachment
    from apprise.attachment.memory import AttachMemory

    found = AppriseAttachment()
    memory: Any = AttachMemory
    found.add(memory(content=picture, name=FILE_NAME, mimetype="image/png"))
    return found
