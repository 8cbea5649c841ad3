"""What `--help` prints of every command: each option and argument is explained, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from app.cli.main import app

OF_TYPER = {"--help", "--install-completion", "--show-completion"}


def texts(command: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yields each command, option and argument, with its help."""
    yield path, (command.help or "").partition("\n\n")[0]
    for parameter in command.params:
        if not OF_TYPER & set(parameter.opts):
            yield f"{path} {'/'.join(parameter.opts)}", getattr(parameter, "help", None) or ""
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from texts(child, f"{path} {name}")


def test_every_command_and_option_is_explained_in_a_sentence() -> None:
    explained = dict(texts(get_command(app), "modelmill"))
    assert len(explained) > 400
    assert [
        name
        for name, text in explained.items()
        if not (text[:1].isupper() or text[:1] == ".") or not text.endswith(".")
    ] == []
