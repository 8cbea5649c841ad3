"""Video jobs: how many, and how long they are kept."""

from __future__ import annotations

from pydantic import Field

from app.settings.group import SettingsGroup


class VideoSettings(SettingsGroup):
    """Video jobs: how many, and how long they are kept."""

    video_jobs_per_user: int = Field(default=100, gt=0)
    """How many video jobs of a user may run; more are refused until one has ended."""
    video_processes: int = Field(default=1, ge=1, le=64)
    """How many processes compute the stages of video jobs on a node: each does one frame at a time."""
    video_keep_days: int = Field(default=10, ge=1)
    """Video jobs are forgotten so long after their end."""
