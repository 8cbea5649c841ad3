"""Video jobs, and the rows and events that they and services produce."""

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


class ResultSettings(SettingsGroup):
    """Results of video jobs and services: retention."""

    results_days: int = Field(default=30, ge=1)
    """How long rows and events are kept."""
    results_per_producer: int = Field(default=1_000_000, ge=1000)
    """Maximum number of rows, and of events, of a running job or a service; the oldest are deleted."""
