"""The SFTP server that Modelmill brings along: a process of its own (`modelmill sftp`) on the accounts in SQL."""

from __future__ import annotations

from app.homes.sftp.builtin.backend import BuiltinBackend
