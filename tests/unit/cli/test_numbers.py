"""Options that are numbers: no command takes NaN or infinity, and none a time below 0; 0 is as any other number."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import get_args

import pytest
from typer.core import TyperOption

from app.kit.cli.command import Exit
from tests.harness.command_line import typed
from tests.harness.http_server import respond, served
from tests.unit.cli.test_help import commands

NOBODY = "http://127.0.0.1:1"


def wrong_numbers() -> Iterator[tuple[str, str, str]]:
    """Yields what is typed before an option, the option, and a value that it does not take."""
    for path, command in commands():
        options = [one for one in command.params if isinstance(one, TyperOption)]
        arguments = ["x" for one in command.params if one.required and not isinstance(one, TyperOption)]
        required = [f"{one.opts[0]}=x" for one in options if one.required]
        for one in options:
            annotation = one.type_descriptor.annotation
            if float in (annotation, *get_args(annotation)):
                typed_before = " ".join([*path.split()[1:], *arguments, *required])
                negative = ["-1"] if one.metavar in ("SECONDS", "HOURS") or one.name.endswith("_s") else []
                for value in ("nan", "inf", "-inf", *negative):
                    yield typed_before, one.opts[0], value


@pytest.mark.parametrize(("command", "option", "value"), list(wrong_numbers()))
def test_a_number_that_makes_no_sense_is_bad_usage(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    option: str,
    value: str,
) -> None:
    monkeypatch.setenv("MODELMILL_DATA_DIR", str(tmp_path))
    monkeypatch.delattr(os, "execve")  # `up` would become another program
    assert typed(monkeypatch, "--url", NOBODY, *command.split(), f"{option}={value}") == Exit.BAD_INPUT
    assert option in capsys.readouterr().err


SUBMIT = "video submit --node=a --video=0 --flow=b"


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        (f"{SUBMIT} --record=0", {"recording": {"hours": 0}}),
        (f"{SUBMIT} --motion=0", {"gate": {"motion": 0}}),
        ("joint drift a/b --threshold=0", {"threshold": 0}),
    ],
)
def test_0_is_sent_to_the_service(monkeypatch: pytest.MonkeyPatch, command: str, sent: dict[str, object]) -> None:
    bodies: list[bytes] = []

    def refuse(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        bodies.append(body)
        respond(handler, b"{}", 400)

    with served(refuse) as url:
        typed(monkeypatch, "--url", url, *command.split())
    assert sent.items() <= json.loads(bodies[0]).items()
