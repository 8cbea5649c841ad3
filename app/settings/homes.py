"""Data homes, and the SFTP server in front of them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from app.settings.group import DatabaseUrl
from app.settings.host import HostSettings
from app.settings.web import WebSettings


class HomeSettings(WebSettings, HostSettings):
    """Data homes, and the SFTP server in front of them."""

    homes_root: Path | None = None
    """Root of the data homes, {root}/users/{user} and {root}/common; default data_dir/homes. All processes that use
    them must see it: the web, the scheduler, the SFTP server and whatever runs training."""
    homes_logical_root: str = Field(default="/private", pattern=r"^/[^/\x00]+(/[^/\x00]+)*$")
    """What tasks and users call that root, and where an SFTPGo server sees it."""
    home_quota_bytes: int = Field(default=0, ge=0)
    """How much a data home may hold whose user has no quota of their own; 0: as much as there is."""
    home_quota_files: int = Field(default=1_000_000, ge=0)
    """How many files and folders a data home may hold whose user has no such limit of their own; 0: as many as there
    is room for."""
    jobs_trash_after_days: int = Field(default=3, ge=0, le=3650)
    """So long after its end the folder of a job goes from jobs/ to trash/jobs/ of its user's home."""
    jobs_purge_after_days: int = Field(default=7, ge=1, le=3650)
    """So long after that it is deleted, and so long after its removal a file in trash/files/."""
    sftp: Literal["embedded", "sftpgo", "off"] = "embedded"
    """The SFTP server of the data homes: our own process (`modelmill sftp`), an SFTPGo server, or none."""
    sftp_host: str | None = None
    """Address that the embedded SFTP server listens on; default: as the web."""
    sftp_port: int = Field(default=2022, ge=0, le=65535)
    """Port that it listens on, or that of SFTPGo's SFTP; 0: any. `modelmill up` takes the next that is free."""
    sftp_public_host: str | None = None
    """Name of the SFTP server that users are told; default: the host of public_url, else where it listens, else the
    name by which the reader reached the web."""
    sftp_database_url: DatabaseUrl = SecretStr("")
    """The database as the embedded SFTP server reaches it, by a PostgreSQL account of few rights; default: as all
    others."""
    sftp_idle_s: float = Field(default=1800, gt=0)
    """The embedded SFTP server ends a session in which nothing was asked for this long."""
    sftpgo_url: str = "http://127.0.0.1:8081"
    """Where SFTPGo's REST API is, without /api/v2."""
    sftpgo_user: str = "admin"
    """Administrator of SFTPGo that manages the accounts."""
    sftpgo_password: SecretStr = SecretStr("")
    """The administrator's password."""
    sftpgo_api_key: SecretStr = SecretStr("")
    """An API key of SFTPGo, instead of name and password."""

    @property
    def homes(self) -> Path:
        return self.homes_root or self.data_dir / "homes"

    @property
    def sftp_address(self) -> str:
        return self.sftp_host or self.host

    @property
    def sftp_known_host(self) -> str | None:
        """Name of the SFTP server where the settings tell it; else it goes by the name that the web is reached by."""
        is_one = self.sftp_host is not None and self.sftp_host.strip("[]") not in ("", "0.0.0.0", "::")  # noqa: S104
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.sftp_public_host or public or (self.sftp_host if is_one else None)
