"""What is uploaded: how many at once, how slowly, how large."""

from __future__ import annotations

from pydantic import Field

from app.settings.group import GIB, SettingsGroup


class UploadSettings(SettingsGroup):
    """What is uploaded: how many at once, how slowly, how large."""

    uploads_per_user: int = Field(default=50, ge=1)
    """How many uploads of one user a web process receives at a time; more are refused until one has ended."""
    uploads_at_once: int = Field(default=200, ge=1, le=240)
    """How many uploads a web process receives at a time, of all users."""
    uploads_unfinished_per_user: int = Field(default=50, ge=1)
    """How many resumable uploads of one user may be unfinished; they are deleted after the time uploads are kept."""
    upload_ttl_s: int = Field(default=86400, ge=60)
    """Uploads that no job took are deleted after this time."""
    upload_idle_s: float = Field(default=30, gt=0)
    """An upload of which nothing comes for this long is cut off."""
    upload_least_bytes_per_s: int = Field(default=500, ge=0)
    """An upload that comes more slowly than this, once it was waited for as long as above, is cut off."""
    max_model_bytes: int = Field(default=2 * GIB, gt=0)
    """Size of an uploaded model."""
    max_images_bytes: int = Field(default=4 * GIB, gt=0)
    """Size of the uploaded reference images."""
    max_unpacked_bytes: int = Field(default=8 * GIB, gt=0)
    """Size of the reference images once unpacked."""
    max_images: int = Field(default=5000, gt=0)
    """How many reference images a job may have."""
    checks_at_once: int = Field(default=4, gt=0)
    """How many files may be checked at once on the web's host; further ones wait."""
    intake_memory_bytes: int = Field(default=4 * GIB, gt=0)
    """Memory that the check of a submission may use, on the web's host."""
    intake_time_s: float = Field(default=300, gt=0)
    """Time limit for checking a submission."""
