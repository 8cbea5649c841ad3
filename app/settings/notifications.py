"""The mail server, and where notifications may go."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from app.kit.network.addresses import read_networks
from app.settings.group import SettingsGroup


class NotificationSettings(SettingsGroup):
    """The mail server, and where notifications may go."""

    smtp_host: str = ""
    """Mail server that notifications are sent through; empty: none are sent by e-mail."""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    """Its port."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """How it is spoken to: starttls, tls from the first byte, or none at all, for a server on this machine."""
    smtp_user: str = ""
    """Account at the mail server; empty: it asks for none."""
    smtp_password: SecretStr = SecretStr("")
    """Its password."""
    smtp_sender: str = "modelmill@localhost"
    """The address that notifications come from."""
    notification_networks: str = ""
    """Private networks that webhooks and chat may be sent to, as 10.0.0.0/8 fd00::/8; by default only public addresses
    may."""

    @field_validator("notification_networks")
    @classmethod
    def _networks(cls, text: str) -> str:
        read_networks(text)
        return text
