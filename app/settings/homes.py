"""Data homes and their SFTP server."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from app.settings.group import DatabaseUrl
from app.settings.server import HostSettings, WebSettings


class HomeSettings(WebSettings, HostSettings):
    """Data homes and their SFTP server."""

    homes_root: Path | None = None
    """Root of the data homes, {root}/users/{user} and {root}/common; default data_dir/homes. All processes that
    use them must see it: web server, scheduler, SFTP server and training."""
    homes_mount: Path | None = None
    """Mount point of the disk that the data homes are on, as /srv. While nothing is mounted there, they are not used,
    instead of being made anew on the disk below; default: this is not checked."""
    homes_logical_root: str = Field(default="/private", pattern=r"^/[^/\x00]+(/[^/\x00]+)*$")
    """Name of that root in tasks and for users, and its path on an SFTPGo server."""
    home_quota_bytes: int = Field(default=0, ge=0)
    """Maximum size of a data home whose user has no own quota; 0: no limit. Over SFTP a new value applies within a
    minute of the scheduler's start."""
    home_quota_files: int = Field(default=1_000_000, ge=0)
    """Maximum number of files and folders in a data home whose user has no own limit; 0: no limit. Over SFTP a
    new value applies within a minute of the scheduler's start."""
    jobs_trash_after_days: int = Field(default=3, ge=0, le=3650)
    """Days after its end when the folder of a job moves from jobs/ to trash/jobs/ of its user's home."""
    jobs_purge_after_days: int = Field(default=7, ge=1, le=3650)
    """Days after which it is deleted from there, and after which a removed file is deleted from trash/files/."""
    sftp: Literal["embedded", "sftpgo", "off"] = "embedded"
    """SFTP server of the data homes: embedded (`modelmill sftp`), an SFTPGo server, or none."""
    sftp_host: str | None = None
    """Address that the embedded SFTP server listens on; default: that of the web server."""
    sftp_port: int = Field(default=2022, ge=0, le=65535)
    """Port of the embedded SFTP server, or of SFTPGo; 0: any. `modelmill up` uses the next free one."""
    sftp_public_host: str | None = None
    """Host name of the SFTP server that users see; default: the host of public_url, else the address it listens
    on, else the host name of the reader's request."""
    sftp_database_url: DatabaseUrl = SecretStr("")
    """Database URL for the embedded SFTP server, with a PostgreSQL account of few rights; default:
    database_url."""
    sftp_idle_s: float = Field(default=1800, gt=0)
    """The embedded SFTP server ends a session without requests after this time."""
    sftpgo_url: str = "http://127.0.0.1:8081"
    """URL of SFTPGo's REST API, without /api/v2."""
    sftpgo_user: str = "admin"
    """SFTPGo administrator that manages the accounts."""
    sftpgo_password: SecretStr = SecretStr("")
    """The administrator's password."""
    sftpgo_api_key: SecretStr = SecretStr("")
    """API key of SFTPGo, instead of user and password."""

    @property
    def homes(self) -> Path:
        return self.homes_root or self.data_dir / "homes"

    @property
    def sftp_address(self) -> str:
        return self.sftp_host or self.host

    @property
    def sftp_known_host(self) -> str | None:
        """Host name of the SFTP server if the settings define it; otherwise that of the web server is used."""
        is_one = self.sftp_host is not None and self.sftp_host.strip("[]") not in ("", "0.0.0.0", "::")  # noqa: S104  # only compared with
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.sftp_public_host or public or (self.sftp_host if is_one else None)
