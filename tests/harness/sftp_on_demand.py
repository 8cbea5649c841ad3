"""The part of `modelmill up` that serves SFTP, as a program: `python -m tests.harness.sftp_on_demand PORT IDLE_S`."""

from __future__ import annotations

import sys

from app.cli.up.sftp_server import serve

if __name__ == "__main__":
    serve("127.0.0.1", int(sys.argv[1]), float(sys.argv[2]))
