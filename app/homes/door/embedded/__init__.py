"""The SFTP door that Modelmill brings along: a process of its own (`modelmill sftp`) on the accounts in SQL."""

from __future__ import annotations

from app.homes.door.embedded.accounts import EmbeddedDoor

__all__ = ["EmbeddedDoor"]
