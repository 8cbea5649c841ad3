"""The machine and the web server."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from app.kit.network.addresses import host_and_port, is_loopback
from app.kit.observability.logs import Format, Level
from app.settings.group import SettingsGroup


class HostSettings(SettingsGroup):
    """This host: folders, name, log."""

    data_dir: Path = Path.home() / ".local" / "share" / "modelmill"
    """Persistent data of this host: objects of the filesystem store, logs, run files."""
    work_dir: Path | None = None
    """Base of the work folders {work_dir}/{job_id}; default data_dir/work. Local to each worker host."""
    run_dir: Path | None = None
    """Slot and lock files of the processes on this host; default data_dir/run."""
    node_name: str = Field(default_factory=socket.gethostname, pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    """Name of this host in worker names; must differ between hosts."""
    log_format: Format = "auto"
    """json, console (readable), or auto: readable on a terminal, JSON otherwise."""
    log_level: Level = "info"
    """Minimum level that is written; debug includes a line for every request."""

    @property
    def work(self) -> Path:
        return self.work_dir or self.data_dir / "work"

    @property
    def run(self) -> Path:
        return self.run_dir or self.data_dir / "run"


class WebSettings(SettingsGroup):
    """The web server: address, access, keys."""

    host: str = "127.0.0.1"
    """Address that the web server listens on. An address that others can reach requires accounts."""
    port: int = Field(default=8080, ge=1, le=65535)
    """Port that the web server listens on."""
    public_url: str | None = None
    """URL of the web server for clients, in signed links and in every displayed address; default: that of the
    request."""
    secret_key: SecretStr = Field(default_factory=lambda: SecretStr(secrets.token_hex(32)))
    """Signs links of the filesystem store and, by a derived key, receipts; keys the hashes of API tokens; and
    encrypts the secrets of services, video jobs and nodes in the database. With another key all tokens are void,
    and those secrets cannot be read. All web processes, the scheduler and the controller need the same key. It is
    required with accounts, and for services, video jobs and receipts."""
    presign_ttl_s: int = Field(default=3600, ge=1, le=7 * 86400)
    """Lifetime of presigned links."""
    metrics_token: SecretStr = SecretStr("")
    """Token that requests for /metrics must send as Authorization: Bearer; without one, /metrics is public."""
    accounts: bool = False
    """Require a log-in even on this machine. It is always required if others can reach the web server."""
    local_user: str = "local"
    """Name of the user of requests from this machine while no accounts are required: an administrator."""

    @property
    def demands_accounts(self) -> bool:
        """Whether other machines can reach the web server, so that everybody must authenticate."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.accounts or not is_loopback(self.host) or (public is not None and not is_loopback(public))

    @property
    def has_lasting_key(self) -> bool:
        """Whether the secret key was set; a generated one ends with the process."""
        return "secret_key" in self.model_fields_set

    @property
    def web_url(self) -> str:
        return (self.public_url or f"http://{host_and_port(self.host, self.port)}").rstrip("/")
