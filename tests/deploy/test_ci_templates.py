"""The templates for other people's pipelines call commands and options that there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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


def scripts() -> dict[str, str]:
    """What each template runs to convert, by its name."""
    action = yaml.safe_load((REPOSITORY / "ops/ci-templates/github-action.yml").read_text())
    gitlab = yaml.safe_load((REPOSITORY / "ops/ci-templates/gitlab.yml").read_text())
    [convert] = [step for step in action["runs"]["steps"] if step.get("id") == "convert"]
    return {"github": convert["run"], "gitlab": "\n".join(gitlab[".modelmill"]["script"])}


@pytest.mark.parametrize("template", ["github", "gitlab"])
def test_without_an_outcome_the_reason_and_its_exit_code_stay(template: str, tmp_path: Path) -> None:
    sample, commands = REPOSITORY / "ops/samples/digits", Path(sys.executable).parent
    given = {"MODEL": str(sample / "digits.onnx"), "IMAGES": str(sample / "reference.zip"), "GITHUB_SHA": "abc"}
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    env = {**os.environ, **given, **files, "PATH": f"{commands}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", scripts()[template]],
        cwd=tmp_path,
        env={**env, "MODELMILL_URL": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 3
    assert "nothing answers at" in run.stderr and "no outcome" not in run.stderr


@pytest.mark.parametrize(
    ("earlier", "call"), [("", "pr comment 7 --body-file"), ("3\\n12", "api -X PATCH repos/o/r/issues/comments/12")]
)
def test_the_action_changes_its_own_comment_alone(tmp_path: Path, earlier: str, call: str) -> None:
    """Of this model, which its title names; the last comment may be another workflow's."""
    action = yaml.safe_load((REPOSITORY / "ops/ci-templates/github-action.yml").read_text())
    [comment] = [step for step in action["runs"]["steps"] if "GH_TOKEN" in step.get("env", {})]
    (tmp_path / "modelmill.md").write_text("### Modelmill: yolo\n\n| Measure |\n")
    (tmp_path / "gh").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$TITLE $*" >> calls\ncase "$2" in --paginate) printf "{earlier}";; esac\n'
    )
    (tmp_path / "gh").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "NUMBER": "7", "GITHUB_REPOSITORY": "o/r"}
    subprocess.run(["bash", "-eo", "pipefail", "-c", comment["run"]], cwd=tmp_path, env=env, check=True)
    listed, written = (tmp_path / "calls").read_text().splitlines()
    assert listed.startswith("### Modelmill: yolo api --paginate repos/o/r/issues/7/comments --jq ")
    assert call in written and "modelmill.md" in written


def test_the_template_of_gitlab_fails_as_the_conversion_did() -> None:
    job = yaml.safe_load((REPOSITORY / "ops/ci-templates/gitlab.yml").read_text())[".modelmill"]
    assert job["script"][-1] == 'exit "$code"'
