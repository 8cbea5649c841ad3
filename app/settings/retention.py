"""Retention of conversions, and the cache of stages."""

from __future__ import annotations

from pydantic import Field

from app.settings.group import GIB
from app.settings.homes import HomeSettings


class RetentionSettings(HomeSettings):
    """Retention of conversions, and the cache of stages."""

    record_ttl_s: int = Field(
        default_factory=lambda data: (data["jobs_trash_after_days"] + data["jobs_purge_after_days"]) * 86400, gt=0
    )
    """Finished jobs are forgotten and their files deleted after this time; by default at the same age as the
    folders of training jobs."""
    archive_days: int = Field(default=90, ge=0, le=36500)
    """How long a completed job stays in the archive with its files, unless its owner keeps it; never shorter than
    record_ttl_s."""
    cache_max_bytes: int = Field(default=20 * GIB, ge=0)
    """How much of the stages' outputs the store keeps, so that the same work of the same user is done once; the
    least recently used entries are deleted first. 0: nothing is kept, and every stage runs."""
    cache_shared: bool = False
    """Share the outputs of stages between all users: a user who submits the same model and pictures as another
    user gets that user's outputs, and learns that they existed."""
