"""How long what was converted is kept, and how much of what stages made."""

from __future__ import annotations

from pydantic import Field

from app.settings.group import GIB
from app.settings.homes import HomeSettings


class RetentionSettings(HomeSettings):
    """How long what was converted is kept, and how much of what stages made."""

    record_ttl_s: int = Field(
        default_factory=lambda data: (data["jobs_trash_after_days"] + data["jobs_purge_after_days"]) * 86400, gt=0
    )
    """Finished jobs are forgotten and their files deleted after this time; by default when the folder of a training job
    that ended with them is deleted."""
    archive_days: int = Field(default=90, ge=0, le=36500)
    """So long after its end a job that has completed stays in the archive with its files, unless its owner keeps it;
    never shorter than record_ttl_s."""
    cache_max_bytes: int = Field(default=20 * GIB, ge=0)
    """How much the store keeps of stages' outputs, so that the same work of the same user is done once; what was used
    least recently goes first. 0: nothing is kept, and every stage is done."""
    cache_shared: bool = False
    """All users share what stages have made: who submits a model and pictures that another user had submitted before
    gets that user's outputs, and sees that they were there."""
