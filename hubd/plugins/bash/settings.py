"""The settings of bash."""

from pydantic import BaseModel, Field


class Settings(BaseModel, defer_build=True):
    """Limits of commands and of their records."""

    # The recorded part of each output in MiB; the rest is dropped.
    max_output_mib: float = Field(64, gt=0, le=1024)
    # Commands that run at once; others wait.
    max_running: int = Field(64, ge=1)
    # Days after which commands that have ended are removed; 0 keeps them.
    retention_days: float = Field(0, ge=0)
