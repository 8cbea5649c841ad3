"""The built-in SFTP server: a separate process (`modelmill sftp`) on the accounts in SQL."""

from __future__ import annotations

from app.homes.sftp.builtin.backend import BuiltinBackend
