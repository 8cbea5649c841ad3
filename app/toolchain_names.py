"""The names of the toolchains: settings list those an installation offers, a conversion names the one it uses."""

from __future__ import annotations

from enum import StrEnum


class ToolchainName(StrEnum):
    HOST = "host"
    KNERON = "kneron"
