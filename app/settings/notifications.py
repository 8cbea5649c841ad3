"""Notifications: mail server, allowed networks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from app.kit.network.addresses import read_networks
from app.settings.group import SettingsGroup


class NotificationSettings(SettingsGroup):
    """Notifications: mail server, allowed networks."""

    smtp_host: str = ""
    """Mail server for notifications; empty: no e-mail."""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    """Port of the mail server."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """Encryption: starttls, tls from the first byte, or none, for a server on this machine."""
    smtp_user: str = ""
    """Account at the mail server; empty: no authentication."""
    smtp_password: SecretStr = SecretStr("")
    """Password of that account."""
    smtp_sender: str = "modelmill@localhost"
    """Sender address of notifications."""
    notification_networks: str = ""
    """Private networks that webhooks and chat may be sent to, such as 10.0.0.0/8 fd00::/8; by default only public
    addresses."""

    @field_validator("notification_networks")
    @classmethod
    def _networks(cls, text: str) -> str:
        read_networks(text)
        return text
