"""The settings of a stack that is started for a demonstration."""

from __future__ import annotations

import os

PREFIX = "MODELMILL_"


def clear_settings() -> None:
    """Removes the settings of another installation from the environment, so that neither its database nor its store is
    used. A demonstration has no SFTP."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    os.environ[f"{PREFIX}SFTP"] = "off"
