"""Connections to other services: hubs and registries, and targets of notifications."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from app.kit.network.addresses import read_networks
from app.settings.group import SettingsGroup


class ExchangeSettings(SettingsGroup):
    """Sources and exports: where models may come from and results may go."""

    source_urls: str = ""
    """https:// addresses that models may be fetched from, separated by spaces. * matches anything, in a host one
    part between dots: https://models.example.org/*. Empty: no URLs."""
    source_networks: str = ""
    """Private networks that these addresses may be in, such as 10.1.0.0/16; no other private address is reached,
    not even by a redirect."""
    source_hf_repositories: str = "*"
    """Repositories of the hub that models may be fetched from, separated by spaces, such as my-org/*; empty:
    none."""
    hf_endpoint: str = "https://huggingface.co"
    """The Hugging Face hub, or a compatible server."""
    hf_token: SecretStr = SecretStr("")
    """Token for the hub, used for all users: everybody who may submit jobs can fetch and push what it permits."""
    mlflow_tracking_uri: str = ""
    """MLflow server that models are fetched from and results are pushed to; empty: none."""
    mlflow_token: SecretStr = SecretStr("")
    """Token for the MLflow server, used for all users."""
    export_targets: str = "*"
    """Where results may be pushed to, separated by spaces, such as hf://my-org/* mlflow://experiment/edge*; empty:
    nowhere. Everybody who may submit jobs pushes with the tokens above."""
    source_s3_endpoint: str = "s3.amazonaws.com"
    """Endpoint of s3:// sources; with the prefix http:// without TLS."""
    source_s3_access_key: str = ""
    """Access key for s3:// sources; empty: anonymous access."""
    source_s3_secret_key: SecretStr = SecretStr("")
    """Secret key for s3:// sources."""
    source_s3_buckets: str = ""
    """Buckets that models may be fetched from, separated by spaces; * matches anything; empty: none."""
    transfer_time_s: float = Field(default=3600, gt=0)
    """Time limit for fetching a model or pushing results."""


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
