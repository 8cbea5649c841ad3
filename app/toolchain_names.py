"""The names of the toolchains: settings say which an installation offers, a conversion says which it uses."""

from __future__ import annotations

from enum import StrEnum


class ToolchainName(StrEnum):
    HOST = "host"
    KNERON = "kneron"
