"""Video jobs: number, retention."""

from __future__ import annotations

from pydantic import Field

from app.settings.group import SettingsGroup


class VideoSettings(SettingsGroup):
    """Video jobs: number, retention."""

    video_jobs_per_user: int = Field(default=100, gt=0)
    """Maximum number of running video jobs of a user; more are refused."""
    video_processes: int = Field(default=1, ge=1, le=64)
    """Number of processes that compute video stages on a node; each handles one frame at a time."""
    video_keep_days: int = Field(default=10, ge=1)
    """Days after their end when video jobs are forgotten."""
