"""The templates for other people's pipelines call commands and options that there are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import click
import pytest
import typer
import yaml

from app.cli.main import app
from tests.harness.http_server import respond, served
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


def test_models_of_one_run_do_not_take_each_others_results() -> None:
    """Of one artifact's name a run may have one, and the files of the model before lie in the same folder."""
    steps = yaml.safe_load((REPOSITORY / "ops/ci-templates/github-action.yml").read_text())["runs"]["steps"]
    [upload] = [step for step in steps if "upload-artifact" in step.get("uses", "")]
    assert "steps.convert.outputs.job-id" in upload["with"]["name"]
    assert scripts()["github"].startswith("rm -rf modelmill-results modelmill.json modelmill.md")


def run_comment_of_gitlab(folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    job = yaml.safe_load((REPOSITORY / "ops/ci-templates/gitlab.yml").read_text())[".modelmill"]
    [comment] = [line for line in job["script"] if "COMMENT_TOKEN" in line]
    (folder / "modelmill.md").write_text("### Modelmill: yolo\n\n| Measure |\n")
    given = {"CI_API_V4_URL": url, "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "7", "COMMENT_TOKEN": "t"}
    script = ["bash", "-eo", "pipefail", "-c", comment]
    env = {**os.environ, **given, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(script, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("author", "title", "call"),
    [
        (9, "### Modelmill: yolo", "PUT /projects/5/merge_requests/7/notes/3"),
        (9, "### Modelmill: face", "POST /projects/5/merge_requests/7/notes"),
        (8, "### Modelmill: yolo", "POST /projects/5/merge_requests/7/notes"),
    ],
)
def test_the_template_of_gitlab_changes_its_own_comment_alone(
    tmp_path: Path, author: int, title: str, call: str
) -> None:
    calls = []
    notes = [{"id": 3, "author": {"id": author}, "body": f"{title}\nbefore"}]

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> None:
        calls.append(f"{request.command} {request.path}")
        answers = {"/user": {"id": 9}, "/projects/5/merge_requests/7/notes?sort=desc&per_page=100": notes}
        respond(request, json.dumps(answers.get(request.path, {})).encode())

    with served(answer) as url:
        run = run_comment_of_gitlab(tmp_path, url)
    assert (run.returncode, run.stderr) == (0, "")
    assert calls[2:] == [call]


def test_a_comment_that_gitlab_refuses_does_not_hide_how_the_conversion_ended(tmp_path: Path) -> None:
    with served(lambda request, _: respond(request, status=403)) as url:
        run = run_comment_of_gitlab(tmp_path, url)
    assert run.returncode == 0 and "The comment could not be written." in run.stderr
