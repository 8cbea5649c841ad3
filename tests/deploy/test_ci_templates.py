"""The templates for other people's pipelines call commands and options that there are."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import typer
import yaml

from app.cli.main import app
from tests.harness.paths import REPOSITORY

TEMPLATES = sorted((REPOSITORY / "ops" / "ci-templates").glob("*.yml"))
CALL = re.compile(r"^\s*-?\s*modelmill (?P<command>[a-z-]+)(?P<rest>.*?)(?:[>|]|$)", re.MULTILINE)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_every_command_and_option_exists(template: Path) -> None:
    text = template.read_text().replace("\\\n", " ").replace("--json\n      ", "--json ")
    commands = typer.main.get_command(app)
    assert isinstance(commands, click.Group) or hasattr(commands, "commands")
    calls = list(CALL.finditer(text))
    assert {call["command"] for call in calls} == {"convert", "ci-table"}
    for call in calls:
        known = {option for param in commands.commands[call["command"]].params for option in param.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+|(?<=:\+)--[a-z-]+", call["rest"])) <= known


def test_the_action_is_composite_and_takes_what_it_uses() -> None:
    action = yaml.safe_load((REPOSITORY / "ops/ci-templates/github-action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    used = set(re.findall(r"inputs\.([a-z-]+)", str(action["runs"])))
    assert used == set(action["inputs"])


def test_the_template_of_gitlab_fails_as_the_conversion_did() -> None:
    job = yaml.safe_load((REPOSITORY / "ops/ci-templates/gitlab.yml").read_text())[".modelmill"]
    assert job["script"][-1] == 'exit "$code"'
