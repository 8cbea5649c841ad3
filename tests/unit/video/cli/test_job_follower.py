"""How following a job ends, and with which exit code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.kit.cli.command import CommandFailed, Exit
from app.video.cli import job_commands
from app.video.cli.job_follower import follow
from app.video.client import VideoClient
from tests.harness.command_line import typed_in

typed = typed_in("video")
JOB = "GLOBAL_ID_1.SUB_ID_1"


def ended(ending: str) -> dict[str, Any]:
    return {"uid": JOB, "state": "DONE", "ending": ending, "progress": 0.5, "reason": "why"}


def client_of(job: Any) -> Any:
    return SimpleNamespace(job=job)


def test_ctrl_c_leaves_the_job_and_says_how_to_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_: str) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(CommandFailed) as left:
        follow(client_of(interrupt), JOB, str)
    assert left.value.code == Exit.CANCELLED
    assert f"The job goes on. End it with `modelmill video cancel {JOB}`." in capsys.readouterr().err


ENDINGS = [("cancelled", Exit.CANCELLED), ("failed", Exit.FAILED)]


@pytest.mark.parametrize(("ending", "code"), ENDINGS)
def test_a_job_that_does_not_finish_fails_the_command_that_follows_it(ending: str, code: Exit) -> None:
    with pytest.raises(CommandFailed) as failed:
        job_commands._follow_job(client_of(lambda _: ended(ending)), JOB, as_json=True)
    assert failed.value.code == code
    job_commands._follow_job(client_of(lambda _: ended("finished")), JOB, as_json=True)


@pytest.mark.parametrize(("ending", "code"), ENDINGS)
def test_a_measurement_that_does_not_finish_prints_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ending: str, code: Exit
) -> None:
    monkeypatch.setattr(VideoClient, "profile", lambda *_: {"uid": JOB})
    monkeypatch.setattr(VideoClient, "job", lambda *_: ended(ending))
    arguments = (
        "profile",
        "--node",
        "edge0",
        "--video",
        "0",
        "--flow",
        "face_detection",
        "--url",
        "http://127.0.0.1:1",
    )
    assert typed(monkeypatch, *arguments) == code
    told = capsys.readouterr()
    assert "DONE 50%  why" in told.err and not told.out


def test_without_stages_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(VideoClient, "stages", lambda _: [])
    assert (
        typed(monkeypatch, "profile", "--node", "edge0", "--video", "0", "--url", "http://127.0.0.1:1")
        == Exit.BAD_INPUT
    )
    assert "there are no stages to measure" in capsys.readouterr().err
