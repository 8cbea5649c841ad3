"""`modelmill sftp`: the embedded SFTP server, until it is stopped."""

from __future__ import annotations


def sftp() -> None:
    """Serve the data homes over SFTP; `modelmill up` does so by itself."""
    from app.bootstrap.sftp import serve_homes

    serve_homes()
