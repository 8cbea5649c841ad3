"""`--help` of every command: it is printed, and explains each option and argument in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from app.cli.main import app

MODELMILL: Any = get_command(app)
OF_TYPER = {"--help", "--install-completion", "--show-completion"}


def commands(command: Any = MODELMILL, path: str = "modelmill") -> Iterator[tuple[str, Any]]:
    """Yields each command, groups too, with what is typed for it."""
    yield path, command
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from commands(child, f"{path} {name}")


def texts() -> Iterator[tuple[str, str]]:
    """Yields each command, option and argument, with its help."""
    for path, command in commands():
        yield path, (command.help or "").partition("\n\n")[0]
        for parameter in command.params:
            if not OF_TYPER & set(parameter.opts):
                yield f"{path} {'/'.join(parameter.opts)}", getattr(parameter, "help", None) or ""


@pytest.mark.slow
def test_every_command_prints_its_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    paths = [path for path, _ in commands()]
    assert len(paths) > 100
    for path in paths:
        _, *words = path.split()
        assert MODELMILL.main([*words, "--help"], prog_name="modelmill", standalone_mode=False) == 0
        assert f"Usage: {path} " in capsys.readouterr().out


def test_every_command_and_option_is_explained_in_a_sentence() -> None:
    explained = dict(texts())
    assert len(explained) > 400
    assert [
        name
        for name, text in explained.items()
        if not (text[:1].isupper() or text[:1] == ".") or not text.endswith(".")
    ] == []


def test_every_group_of_the_service_says_its_exit_codes() -> None:
    groups = [(path, command.epilog or "") for path, command in commands() if isinstance(command, TyperGroup)]
    assert {path for path, epilog in groups if "Exit codes" not in epilog} == {"modelmill health"}


WITHOUT_JSON = {
    # programs that run until they are stopped
    *("joint demo", "joint operator", "mcp", "node", "sftp", "up", "video demo", "video pseudo"),
    # what they print is a document or a stream already: a log, JSON, JSON lines, Markdown, a table of figures
    *(
        "ci-table",
        "jobs logs",
        "train logs",
        "joint rows",
        "joint rules",
        "video rows",
        "video rules",
        "train simulate",
    ),
    # the health checks of containers, whose answer is the exit code
    *("health sandbox", "health training", "health web", "health worker"),
    # of the installation, on its own machine; a token or a password goes to stdout alone
    *("db current", "db renew-secrets", "db upgrade"),
    *(f"users {verb}" for verb in ("create", "delete", "disable", "enable", "groups", "revoke", "sftp-reset", "token")),
}


def test_every_command_that_shows_or_changes_something_of_the_service_has_json() -> None:
    lacking = {
        path.removeprefix("modelmill ")
        for path, command in commands()
        if not isinstance(command, TyperGroup) and not any("--json" in parameter.opts for parameter in command.params)
    }
    assert lacking == WITHOUT_JSON
