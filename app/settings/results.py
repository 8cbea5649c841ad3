"""Results of video jobs and services: retention."""

from __future__ import annotations

from pydantic import Field

from app.settings.group import SettingsGroup


class ResultSettings(SettingsGroup):
    """Results of video jobs and services: retention."""

    results_days: int = Field(default=30, ge=1)
    """How long rows and events are kept."""
    results_per_producer: int = Field(default=1_000_000, ge=1000)
    """Maximum number of rows, and of events, of a running job or a service; the oldest are deleted."""
