"""The stores, the size of uploads, and how long data is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, model_validator

from app.settings.group import GIB, DatabaseUrl, SettingsGroup
from app.settings.homes import HomeSettings
from app.settings.server import HostSettings


class StoreSettings(HostSettings):
    """Shared storage: database, Redis, object store."""

    database_url: DatabaseUrl = SecretStr("")
    """Database of the accounts: sqlite:///path on a local disk, or postgresql://user:password@host/name; default a
    SQLite file in data_dir. It contains a password, so it may be a file in MODELMILL_SECRETS_DIR like other
    secrets."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    """Redis for job records and events: Redis 6.2 or newer, or Valkey, without persistence."""
    queue_database: int | None = Field(default=None, ge=0)
    """Database number of the queues on the same server; default: the one after that of the records."""
    store: Literal["filesystem", "s3"] = "filesystem"
    """Where artifacts are stored: a folder that all processes can see, or an S3 store."""
    store_root: Path | None = None
    """Root of the filesystem store; default data_dir/objects."""
    s3_endpoint: str = "127.0.0.1:9000"
    """host:port of the S3 store."""
    s3_public_endpoint: str | None = None
    """Endpoint in presigned links, if clients reach the store under another name."""
    s3_access_key: str = ""
    """Access key of the S3 store."""
    s3_secret_key: SecretStr = SecretStr("")
    """Secret key of the S3 store."""
    s3_bucket: str = "toolchain-jobs"
    """Bucket of the artifacts; created if it does not exist."""
    s3_region: str = "us-east-1"
    """Region that requests are signed for."""
    s3_secure: bool = False
    """Use TLS for the S3 store."""

    @model_validator(mode="after")
    def _check_databases_differ(self) -> Self:
        if self.queue_database == _get_database(self.redis_url):
            raise ValueError("queue_database must be another one than redis_url names")
        return self

    @property
    def database(self) -> str:
        """The URL with its password: not for logs."""
        return self.database_url.get_secret_value() or f"sqlite:///{self.data_dir / 'modelmill.db'}"

    @property
    def queues(self) -> str:
        records = _get_database(self.redis_url)
        database = records + 1 if self.queue_database is None else self.queue_database
        return urlunsplit(urlsplit(self.redis_url)._replace(path=f"/{database}"))

    @property
    def objects(self) -> Path:
        return self.store_root or self.data_dir / "objects"

    @property
    def objects_place(self) -> str:
        """The folder or the bucket, in words."""
        return f"{self.s3_endpoint}/{self.s3_bucket}" if self.store == "s3" else str(self.objects)


def _get_database(url: str) -> int:
    return int(urlsplit(url).path.strip("/") or 0)


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
    """Maximum size of the uploaded reference pictures."""
    max_unpacked_bytes: int = Field(default=8 * GIB, gt=0)
    """Maximum size of the unpacked reference pictures."""
    max_images: int = Field(default=5000, gt=0)
    """Maximum number of reference pictures of a job."""
    checks_at_once: int = Field(default=4, gt=0)
    """Maximum number of concurrent file checks on the web server's host; further ones wait."""
    intake_memory_bytes: int = Field(default=4 * GIB, gt=0)
    """Memory limit for checking a submission, on the web server's host."""
    intake_time_s: float = Field(default=300, gt=0)
    """Time limit for checking a submission."""


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
