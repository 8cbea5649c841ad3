"""The command line, typed in this process."""

from __future__ import annotations

import sys

import pytest

from app.cli import main


def typed(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit code of `modelmill arguments`."""
    monkeypatch.setattr(sys, "argv", ["modelmill", *map(str, arguments)])
    monkeypatch.delenv("MODELMILL_URL", raising=False)
    try:
        return main.main()
    except SystemExit as ended:
        return int(ended.code or 0)
