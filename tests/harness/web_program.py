"""The web of `modelmill up`, as a program: its port is its argument."""

from __future__ import annotations

import sys

from app.cli.up.web_server import serve


def main() -> None:
    serve("127.0.0.1", int(sys.argv[1]))
