"""The configuration, as data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """Everything `stallwatch.yaml` can say."""

    model_config = ConfigDict(frozen=True, extra="forbid")
