"""Completion of commands and options by the shell."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from app.cli.main import app


@pytest.mark.parametrize(
    ("words", "completed"),
    [("modelmill arch", "archive"), ("modelmill archive ke", "keep"), ("modelmill convert --no-ca", "--no-cache")],
)
def test_bash_completes_commands_and_options(words: str, completed: str) -> None:
    environment = {"_MODELMILL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert CliRunner().invoke(app, prog_name="modelmill", env=environment).stdout.split() == [completed]
