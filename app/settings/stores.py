"""Where the processes keep what they share: database, Redis, object store."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, model_validator

from app.settings.group import DatabaseUrl
from app.settings.host import HostSettings


class StoreSettings(HostSettings):
    """Where the processes keep what they share: database, Redis, object store."""

    database_url: DatabaseUrl = SecretStr("")
    """Accounts: sqlite:///path on a local disk, or postgresql://user:password@host/name; default a SQLite file in
    data_dir. Holds a password, so it may be a file in MODELMILL_SECRETS_DIR like the other secrets."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    """Job records and events. Redis 6.2 or newer, or Valkey; without persistence."""
    queue_database: int | None = Field(default=None, ge=0)
    """Database of the queues on the same server; default: the one after that of the records."""
    store: Literal["filesystem", "s3"] = "filesystem"
    """Where artifacts live: in a folder, which all processes must see, or in an S3 store."""
    store_root: Path | None = None
    """Root of the filesystem store; default data_dir/objects."""
    s3_endpoint: str = "127.0.0.1:9000"
    """host:port of the S3 store."""
    s3_public_endpoint: str | None = None
    """Endpoint in presigned links, when clients reach the store by another name."""
    s3_access_key: str = ""
    """Name of the store's account."""
    s3_secret_key: SecretStr = SecretStr("")
    """Its secret."""
    s3_bucket: str = "toolchain-jobs"
    """Bucket of the artifacts; made when it does not exist."""
    s3_region: str = "us-east-1"
    """Region that requests are signed for."""
    s3_secure: bool = False
    """Speak TLS with the store."""

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
