"""What the unit tests share."""

from __future__ import annotations

from tests.harness.reuse import build_commands_once

build_commands_once()
