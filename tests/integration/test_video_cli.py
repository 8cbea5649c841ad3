"""`modelmill video`, typed against a running web: what it says, what it refuses, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.kit.cli.command import Exit
from app.kit.clock import now
from app.video.cli import job_follower
from app.video.model.job import Ending, JobState
from tests.harness.api import small_model
from tests.harness.command_line import typed_in
from tests.harness.video.records import ADDRESSES, AGENT_PORT, EDGE, dag, ended_video
from tests.harness.video.web import VideoWeb
from tests.harness.video.web_fixtures import started

typed = typed_in("video")
__all__ = ["started"]


@pytest.fixture
def env(started: VideoWeb, monkeypatch: pytest.MonkeyPatch) -> VideoWeb:
    monkeypatch.setattr(job_follower, "POLL_S", 0.02)
    monkeypatch.setenv("MODELMILL_URL", started.url)
    started.empty()
    return started


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    """What a command that succeeds prints."""
    capsys.readouterr()
    code = typed(monkeypatch, *arguments)
    seen = capsys.readouterr()
    assert code == Exit.OK, seen.err
    return seen.out


def parsed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Any:
    return json.loads(said(capsys, monkeypatch, *arguments, "--json"))


def written(folder: Path, content: Any) -> Path:
    file = folder / "sent.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_a_job_is_submitted_by_a_file_or_by_options(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env.running()
    body = {
        "node_addr": f"{ADDRESSES[EDGE]}:{AGENT_PORT}",
        "video_id": 1,
        "dag": dag(),
        "user_constraint": {"delay": 0.3, "accuracy": 0.9},
    }
    made = parsed(capsys, monkeypatch, "submit", written(tmp_path, body))
    assert (made["node"], made["dag"], made["constraint"]["delay"]) == (EDGE, dag(), 0.3)
    flow = ("--flow", "face_detection,face_alignment")
    text = said(capsys, monkeypatch, "submit", "--node", EDGE, "--video", 0, *flow, "--delay", 0.5, "--each-frame")
    job = env.video.jobs.get(env.user, text.split()[0])
    assert (job.video_id, job.constraint.hi, job.realtime, job.dag.to_json()) == ("0", 0.5, False, dag())


def test_jobs_are_listed_and_shown(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(capsys, monkeypatch, "list") == "There are no video jobs.\n"
    job = env.running()
    line = next(line for line in said(capsys, monkeypatch, "list").splitlines() if job.uid in line)
    assert ("EXEC" in line, "230.0 ms" in line, "5.8" in line) == (True, True, True)
    assert said(capsys, monkeypatch, "list", "--state", "done") == "There are no video jobs.\n"
    shown = said(capsys, monkeypatch, "show", job.uid, "--decisions", "--events")
    for part in ("face_alignment: model 0 on cloud0 (cloud)", "p50 230.0 ms", "F1 0.970", "late", "24 frames a second"):
        assert part in shown
    assert parsed(capsys, monkeypatch, "show", job.uid)["uid"] == job.uid


def test_a_job_is_changed_cancelled_and_deleted(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    uid = env.running().uid
    assert "0.1, 0.4" in said(capsys, monkeypatch, "constrain", uid, "--delay", "0.1,0.4", "--level", 3)
    assert "0.1, 0.4" in said(capsys, monkeypatch, "constrain", uid, "--accuracy", 0.5)
    assert said(capsys, monkeypatch, "policy", uid, "fixed") == f"{uid} is scheduled by fixed\n"
    mapping = {
        name: {"model_id": 0, "node_role": "host", "node_ip": ADDRESSES[EDGE]}
        for name in ("face_detection", "face_alignment")
    }
    plan = written(tmp_path, {"video_conf": {"resolution": "240p"}, "flow_mapping": mapping})
    assert parsed(capsys, monkeypatch, "plan", uid, plan)["plan"]["video_conf"]["resolution"] == "240p"
    assert typed(monkeypatch, "delete", uid) == Exit.BAD_INPUT
    assert said(capsys, monkeypatch, "cancel", uid) == f"{uid} cancelled\n"
    assert env.video.jobs.get(env.user, uid).state is JobState.DONE
    assert said(capsys, monkeypatch, "delete", uid) == f"{uid} deleted\n"
    assert typed(monkeypatch, "show", uid) == Exit.NOT_FOUND


@pytest.mark.parametrize(
    ("ending", "code"),
    [(Ending.FINISHED, Exit.OK), (Ending.ERROR, Exit.FAILED), (Ending.CANCELLED, Exit.CANCELLED)],
)
def test_watching_ends_as_the_job_does(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ending: Ending, code: Exit
) -> None:
    job = ended_video(env.video, env.user, now=now(), ending=ending, reason="So it was.")
    assert typed(monkeypatch, "watch", job.uid) == code
    assert f"DONE {ending.value}  So it was." in capsys.readouterr().out


def test_rules_are_given_by_a_file_and_events_are_told_oldest_first(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = env.running()
    assert json.loads(said(capsys, monkeypatch, "rules", job.uid)) == {"zones": [], "rules": []}
    rules = {"rules": [{"name": "anything", "cooldown_s": 0}]}
    kept = json.loads(said(capsys, monkeypatch, "rules", job.uid, written(tmp_path, rules)))
    assert kept["rules"][0]["at_least"] == 1
    assert said(capsys, monkeypatch, "rule-events", job.uid) == "There are no events.\n"
    boxes: list[list[list[float]]] = [[[10, 10, 20, 20]], [], [[50, 10, 60, 20]]]
    for n, box in enumerate(boxes, 1):
        row = {"n_loop": 50 + n, "at": now().timestamp() + 60 * n, "bbox": box, "size": [100, 100]}
        report: Any = {"job_uid": job.uid, "seq": 50 + n, "results": [row]}
        env.video.reports.take(report, node=EDGE, user="", now=now())
    lines = said(capsys, monkeypatch, "rule-events", job.uid).splitlines()
    assert [line.split("  ")[1:] for line in lines] == [["anything", "object", f"(frame {n})"] for n in (51, 53)]
    assert parsed(capsys, monkeypatch, "rule-events", job.uid, "--limit", 1)["n_loop"] == 53
    broken = written(tmp_path, {"rules": [{"name": "a", "zone": "nowhere"}]})
    capsys.readouterr()
    assert typed(monkeypatch, "rules", job.uid, broken) != Exit.OK
    assert "no zone 'nowhere'" in capsys.readouterr().err


def test_sinks_are_added_listed_and_removed(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = env.running()
    assert said(capsys, monkeypatch, "sinks", "list", job.uid) == "There are no sinks.\n"
    added = said(capsys, monkeypatch, "sinks", "add", job.uid, "https://93.184.215.14/x")
    sink_id = added.split()[0]
    assert "whsec_" in added
    line = said(capsys, monkeypatch, "sinks", "list", job.uid).strip()
    assert line == f"{sink_id}  events  https://93.184.215.14/x  idle  0 delivered, 0 waiting"
    nowhere = said(capsys, monkeypatch, "sinks", "add", job.uid, "redis://nowhere.invalid/0/rows").split()[0]
    assert typed(monkeypatch, "sinks", "test", job.uid, nowhere) == Exit.FAILED
    assert "It was not taken: its host cannot be resolved" in capsys.readouterr().out
    said(capsys, monkeypatch, "sinks", "remove", job.uid, nowhere)
    files = parsed(capsys, monkeypatch, "sinks", "add", job.uid, "datasets/door")
    assert files["kind"] == "file"
    assert typed(monkeypatch, "sinks", "test", job.uid, "datasets/yard") == Exit.NOT_FOUND
    assert "there is no sink datasets/yard" in capsys.readouterr().err
    assert said(capsys, monkeypatch, "sinks", "remove", job.uid, "datasets/door") == "datasets/door is removed.\n"
    said(capsys, monkeypatch, "sinks", "remove", job.uid, sink_id[:8])
    assert parsed(capsys, monkeypatch, "sinks", "list", job.uid) == []
    sink_id = said(capsys, monkeypatch, "sinks", "add", job.uid, "mqtt://10.0.0.1/a", "--sent-by", "node").split()[0]
    line = said(capsys, monkeypatch, "sinks", "list", job.uid).strip()
    assert line == f"{sink_id}  events  mqtt://10.0.0.1/a by the node  idle  0 delivered, 0 waiting"
    capsys.readouterr()
    assert typed(monkeypatch, "sinks", "add", job.uid, "mqtt://10.0.0.1/a") != Exit.OK
    assert "private network" in capsys.readouterr().err
    assert typed(monkeypatch, "sinks", "add", job.uid, "amqp://93.184.215.14/a") == Exit.BAD_INPUT
    assert "mqtts://" in capsys.readouterr().err


def test_sinks_are_those_of_a_file(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = env.running()
    said(capsys, monkeypatch, "sinks", "add", job.uid, "datasets/old")
    entries = [
        {"address": "datasets/door", "content": "rows"},
        {"address": "mqtt://me:secret@93.184.215.14/a", "kind": "home_assistant"},
    ]
    file = written(tmp_path, {"sinks": entries})
    assert said(capsys, monkeypatch, "sinks", "apply", job.uid, file).splitlines() == [
        "datasets/door is added.",
        "mqtt://me:***@93.184.215.14/a is added.",
    ]
    assert said(capsys, monkeypatch, "sinks", "apply", job.uid, file, "--prune") == "datasets/old is removed.\n"
    kept = parsed(capsys, monkeypatch, "sinks", "list", job.uid)
    assert [(sink["kind"], sink["content"]) for sink in kept] == [("file", "rows"), ("home_assistant", "events")]
    entries[1] |= {"sent_by": "node"}
    file = written(tmp_path, {"sinks": entries})
    assert said(capsys, monkeypatch, "sinks", "apply", job.uid, file, "--prune").splitlines() == [
        "mqtt://me:***@93.184.215.14/a is added.",
        "mqtt://me:***@93.184.215.14/a is removed.",
    ]
    assert said(capsys, monkeypatch, "sinks", "apply", job.uid, file, "--prune") == "Nothing changes.\n"
    for wrong in (
        "[]",
        "sinks: [{adress: x}]",
        "sinks: [{address: x, content: all}]",
        "sinks: [x]",
        "sinks: [{address: 5}]",
    ):
        assert typed(monkeypatch, "sinks", "apply", job.uid, written(tmp_path, wrong)) == Exit.BAD_INPUT
        assert "cannot be read" in capsys.readouterr().err


def test_what_there_is_is_told(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(capsys, monkeypatch, "nodes") == "There are no nodes with videos.\n"
    uid = env.running().uid
    assert "classroom-270p.mp4" in said(capsys, monkeypatch, "nodes")
    assert "bbox: boxes" in said(capsys, monkeypatch, "kinds")
    assert "(default)" in said(capsys, monkeypatch, "policies")
    assert "face_rfb_640" in said(capsys, monkeypatch, "stages", "list")
    assert "face_alignment" in said(capsys, monkeypatch, "profile", "--node", EDGE)
    assert "face_detection→" in said(capsys, monkeypatch, "what-if", uid, "--resolution", "360p", "--up", "cloud0=2")


def test_stages_are_set_and_removed(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    env.container.models.add_upload(env.user, "small", [small_model()], now=now())
    arguments = ("stages", "set", "faces", "--kind", "face_detection", "--model", "small", "--model", "small")
    assert parsed(capsys, monkeypatch, *arguments)["models"] == [["small"], ["small"]]
    assert said(capsys, monkeypatch, "stages", "remove", "faces") == "stage faces removed\n"
    assert typed(monkeypatch, "stages", "remove", "faces") == Exit.NOT_FOUND
    assert typed(monkeypatch, *arguments[:-1], "none") == Exit.BAD_INPUT


def test_profiling_waits_for_the_end_and_prints_what_was_measured(
    env: VideoWeb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    env.running()
    submit, jobs = env.video.jobs.submit, env.video.jobs

    def submit_and_end(*given: Any, **more: Any) -> Any:
        job = submit(*given, **more)
        report = {"job_uid": job.uid, "seq": 1, "results": [], "progress": 1.0, "ending": "finished", "reason": "Done."}
        env.video.reports.take(report, node=EDGE, now=now())  # type: ignore[arg-type]
        return job

    monkeypatch.setattr(jobs, "submit", submit_and_end)
    assert typed(monkeypatch, "profile", "--node", EDGE, "--video", 0, "--flow", "face_detection,face_alignment") == 0
    seen = capsys.readouterr()
    assert "DONE 100%  Done." in seen.err
    assert "face_detection" in seen.out and "480p" in seen.out
    monkeypatch.setattr(jobs, "submit", submit)
    code = typed(
        monkeypatch, "profile", "--node", EDGE, "--video", 0, "--flow", "face_detection,face_alignment", "--timeout", 0
    )
    assert code == Exit.FAILED
