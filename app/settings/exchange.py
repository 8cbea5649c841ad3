"""Where models may be fetched from, and where results may be pushed to."""

from __future__ import annotations

from pydantic import Field, SecretStr

from app.settings.group import SettingsGroup


class ExchangeSettings(SettingsGroup):
    """Where models may be fetched from, and where results may be pushed to."""

    source_urls: str = ""
    """https:// addresses that models may be fetched from, with blanks between them; * stands for anything,
    in a host for one part between dots: https://models.example.org/*. None: models are not fetched from URLs."""
    source_networks: str = ""
    """Private networks that these may lie in, as 10.1.0.0/16; else no private address is reached, by no redirect."""
    source_hf_repositories: str = "*"
    """Repositories of the hub that models may be fetched from, with blanks between them, as my-org/*; empty: none."""
    hf_endpoint: str = "https://huggingface.co"
    """The hub, or a server that answers as it does."""
    hf_token: SecretStr = SecretStr("")
    """As whom the hub is asked, by everybody: whoever may submit jobs can fetch and push what this token can."""
    mlflow_tracking_uri: str = ""
    """Of the MLflow server that models are fetched from and results are pushed to; empty: none."""
    mlflow_token: SecretStr = SecretStr("")
    """As whom it is asked, by everybody."""
    export_targets: str = "*"
    """Where results may be pushed to, with blanks between them, as hf://my-org/* mlflow://experiment/edge*; empty:
    nowhere. Whoever may submit jobs pushes with the tokens above."""
    source_s3_endpoint: str = "s3.amazonaws.com"
    """Of s3:// sources; with http:// before it without TLS."""
    source_s3_access_key: str = ""
    """Of s3:// sources; empty: they are read without signing in."""
    source_s3_secret_key: SecretStr = SecretStr("")
    """Belongs to the access key."""
    source_s3_buckets: str = ""
    """Buckets that models may be fetched from, with blanks between them; * stands for anything; empty: none."""
    transfer_time_s: float = Field(default=3600, gt=0)
    """Time limit for fetching a model or pushing results."""
