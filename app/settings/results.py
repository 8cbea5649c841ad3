"""Results of video jobs and services: how long and how many of them are kept."""

from __future__ import annotations

from pydantic import Field

from app.settings.group import SettingsGroup


class ResultSettings(SettingsGroup):
    """Results of video jobs and services: how long and how many of them are kept."""

    results_days: int = Field(default=30, ge=1)
    """How long rows and events are kept, frame by frame."""
    results_per_producer: int = Field(default=1_000_000, ge=1000)
    """How many rows, and how many events, a job that runs or a service has; the oldest go."""
