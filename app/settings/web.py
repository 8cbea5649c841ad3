"""The web: its address, who may reach it, and what it signs with."""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from app.kit.network.addresses import is_loopback
from app.settings.group import SettingsGroup


class WebSettings(SettingsGroup):
    """The web: its address, who may reach it, and what it signs with."""

    host: str = "127.0.0.1"
    """Address that the web listens on. One that others can reach demands accounts."""
    port: int = Field(default=8080, ge=1, le=65535)
    """Port that the web listens on."""
    public_url: str | None = None
    """How clients reach the web, in signed links and in every address that is shown; default: as whoever asks did."""
    secret_key: SecretStr = Field(default_factory=lambda: SecretStr(secrets.token_hex(32)))
    """Signs links of the filesystem store and, by a key derived from it, receipts; keys the hashes of API tokens, and
    encrypts the secrets of services, video jobs and nodes in the database: with another one all tokens end, and those
    secrets cannot be read. Give the same one to all web processes, the scheduler and the controller. Must be set where
    accounts are demanded, and for services, video jobs and receipts."""
    presign_ttl_s: int = Field(default=3600, ge=1, le=7 * 86400)
    """Life of presigned links."""
    metrics_token: SecretStr = SecretStr("")
    """Who reads /metrics must send it as Authorization: Bearer; without one everybody may."""
    accounts: bool = False
    """Demand a log-in even on this machine. Where others can reach the web it always is: see demands_accounts."""
    local_user: str = "local"
    """Who asks from this machine while no accounts are demanded: an administrator."""

    @property
    def demands_accounts(self) -> bool:
        """Can anybody but this machine reach the web? Then everybody must say who they are."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.accounts or not is_loopback(self.host) or (public is not None and not is_loopback(public))

    @property
    def has_lasting_key(self) -> bool:
        """Was the secret key set? A made-up one dies with the process."""
        return "secret_key" in self.model_fields_set

    @property
    def web_url(self) -> str:
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")
