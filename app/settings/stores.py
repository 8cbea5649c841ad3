"""Shared storage: database, Redis, object store."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, model_validator

from app.settings.group import DatabaseUrl
from app.settings.host import HostSettings


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
    def _no_two_databases_in_one(self) -> Self:
        if self.queue_database == _database(self.redis_url):
            raise ValueError("queue_database must be another one than redis_url names")
        return self

    @property
    def database(self) -> str:
        """The URL with its password: not for logs."""
        return self.database_url.get_secret_value() or f"sqlite:///{self.data_dir / 'modelmill.db'}"

    @property
    def queues(self) -> str:
        records = _database(self.redis_url)
        database = records + 1 if self.queue_database is None else self.queue_database
        return urlunsplit(urlsplit(self.redis_url)._replace(path=f"/{database}"))

    @property
    def objects(self) -> Path:
        return self.store_root or self.data_dir / "objects"


def _database(url: str) -> int:
    return int(urlsplit(url).path.strip("/") or 0)
