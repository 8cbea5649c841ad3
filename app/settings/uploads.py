"""Uploads: number, speed, size."""

from __future__ import annotations

from pydantic import Field

from app.settings.group import GIB, SettingsGroup


class UploadSettings(SettingsGroup):
    """Uploads: number, speed, size."""

    uploads_per_user: int = Field(default=50, ge=1)
    """Maximum number of concurrent uploads of a user to a web process; more are refused."""
    uploads_at_once: int = Field(default=200, ge=1, le=240)
    """Maximum number of concurrent uploads of all users to a web process."""
    uploads_unfinished_per_user: int = Field(default=50, ge=1)
    """Maximum number of unfinished resumable uploads of a user; they expire like other uploads."""
    upload_ttl_s: int = Field(default=86400, ge=60)
    """Uploads that no job uses are deleted after this time."""
    upload_idle_s: float = Field(default=30, gt=0)
    """An upload without data for this long is ended."""
    upload_least_bytes_per_s: int = Field(default=500, ge=0)
    """An upload that is slower than this, once upload_idle_s has passed, is ended."""
    max_model_bytes: int = Field(default=2 * GIB, gt=0)
    """Maximum size of an uploaded model."""
    max_images_bytes: int = Field(default=4 * GIB, gt=0)
    """Maximum size of the uploaded reference images."""
    max_unpacked_bytes: int = Field(default=8 * GIB, gt=0)
    """Maximum size of the unpacked reference images."""
    max_images: int = Field(default=5000, gt=0)
    """Maximum number of reference images of a job."""
    checks_at_once: int = Field(default=4, gt=0)
    """Maximum number of concurrent file checks on the web server's host; further ones wait."""
    intake_memory_bytes: int = Field(default=4 * GIB, gt=0)
    """Memory limit for checking a submission, on the web server's host."""
    intake_time_s: float = Field(default=300, gt=0)
    """Time limit for checking a submission."""
