"""`modelmill joint`, typed in this process."""

from __future__ import annotations

import pytest

from tests.harness import command_line


def typed(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit code of `modelmill joint arguments`."""
    return command_line.typed(monkeypatch, "joint", *arguments)
