"""The base class of the settings groups."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1024 * 1024
GIB = 1024 * MIB
DATABASES = ("sqlite:///", "postgresql://")


class SettingsGroup(BaseSettings):
    """Settings of one subject. Each is a field, read from MODELMILL_<name>; its docstring is its documentation."""

    model_config = SettingsConfigDict(
        env_prefix="MODELMILL_",
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        env_ignore_empty=True,
        defer_build=True,
    )


def _check_database(url: SecretStr) -> SecretStr:
    if url.get_secret_value() and not url.get_secret_value().startswith(DATABASES):
        raise ValueError(f"must begin with {' or '.join(DATABASES)}")
    return url


DatabaseUrl = Annotated[SecretStr, AfterValidator(_check_database)]
"""The URL of a supported database, or empty."""
