"""What happens to tasks, services and video jobs is written into the outbox by the transaction in which it happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.accounts.model import Role
from app.bootstrap.container import Container, assemble
from app.inference.model_card import Format, ModelCard
from app.joint_inference.model.rollout import ROLLOUT, Rollout, RolloutState
from app.joint_inference.service.rollouts import note_change
from app.kit.clock import now, to_text
from app.kit.sql import publish
from app.notifications.model import EventKind, Kind
from app.notifications.service import NewTarget
from app.notifications.texts import subject_line
from app.settings import Settings
from tests.harness.joint.deployment import resource
from tests.harness.notifications import failed_job
from tests.harness.training.scheduler import RAY, SCRIPT, Scheduler, make_common
from tests.harness.training.scheduler import State as TaskState
from tests.harness.video.records import running_video


@pytest.fixture
def told(settings: Settings) -> Iterator[Container]:
    """Where ada is told of everything, and bob of nothing."""
    container = assemble(settings.model_copy(update={"ray_address": RAY}))
    for name in ("ada", "bob"):
        container.accounts.users.ensure(name, Role.USER)
    container.notifications.targets.add("ada", NewTarget(Kind.WEBHOOK, "https://example.org/hook"))
    make_common(settings.homes)
    yield container
    container.close()


def messages(container: Container) -> list[tuple[str, dict[str, Any]]]:
    """Oldest first: kind and data."""
    newest = container.notifications.outbox.newest("ada")
    return [(each.event_kind, json.loads(each.body)["data"]) for each in reversed(newest)]


def test_the_end_of_a_task_is_told(told: Container) -> None:
    for user in ("ada", "bob"):
        task, _ = told.training.tasks.submit(user, f"{SCRIPT}name: digits\n".encode(), now=now())
        scheduler = Scheduler(told.database, told.homes)
        scheduler.bring(task.task_id, TaskState.RUNNING)
        assert not messages(told) or user == "bob"
        scheduler.end(task.task_id, TaskState.SUCCEEDED)
    ((kind, data),) = messages(told)
    assert (kind, data["name"], data["state"]) == ("task.succeeded", "digits", "SUCCEEDED")
    assert data["url"].endswith(f"/ui/tasks/{data['task_id']}")


def test_a_service_that_fails_is_told_once(told: Container) -> None:
    spec = resource("gate", edge="edge0", cloud="cloud0", small="missing", big="missing")
    service, _ = told.joint.services.apply("ada", spec, now=now())
    for minutes in range(3):
        told.joint.controller.reconcile(service.uid, now=now() + timedelta(minutes=minutes))
    ((kind, data),) = messages(told)
    assert kind == "service.failed"
    assert data["name"] == "default/gate"
    assert data["reason"]


def test_a_roll_back_is_told_once_with_its_cause(told: Container) -> None:
    spec = resource("gate", edge="edge0", cloud="cloud0", small="missing", big="missing")
    service, _ = told.joint.services.apply("ada", spec, now=now())
    one, two = (ModelCard(f"small@{number}", Format.ONNX, str(number) * 64, 1) for number in (1, 2))
    begun = Rollout(one, two, RolloutState.PROGRESSING, nodes=("edge0",))
    ended = replace(begun, state=RolloutState.ROLLED_BACK, reason="edge0 agrees on 10 % of the pictures.")
    with told.database.write() as conn:
        note_change(conn, replace(service, rollout=ROLLOUT.write(begun)), ended, now())
        note_change(conn, replace(service, rollout=ROLLOUT.write(ended)), replace(ended, reason="again"), now())
    ((kind, data),) = messages(told)
    assert (kind, data["name"]) == ("service.rolled_back", "default/gate")
    assert "10 %" in data["reason"]
    assert "previous model" in subject_line(EventKind(kind), data, "en")


def test_each_trouble_of_a_video_job_is_told_when_it_begins_and_when_it_is_over(told: Container) -> None:
    job = running_video(told.video, "ada", now=now())
    told.video.jobs.rename("ada", job.uid, "gate")
    seq = 100
    away, refused = ("No signal: it is away. It is opened again.", "No signal: it refuses. It is opened again.")
    steps = (
        (["degraded"], ""),
        (["degraded", "no_signal"], away),
        (["degraded", "no_signal"], refused),
        (["degraded"], ""),
    )
    for flags, note in (*steps, ([], "")):
        seq += 1
        report = {"job_uid": job.uid, "seq": seq, "results": [], "flags": flags, "note": note}
        told.video.reports.take(report, node="edge0", now=now())
    told.video.jobs.cancel("ada", job.uid, now=now())
    assert [(kind, data.get("begun"), data.get("over"), data.get("flags")) for kind, data in messages(told)] == [
        ("video.alert", ["degraded"], None, ["degraded"]),
        ("video.alert", ["no_signal"], None, ["degraded", "no_signal"]),
        ("video.clear", None, ["no_signal"], ["degraded"]),
        ("video.clear", None, ["degraded"], []),
        ("video.ended", None, None, None),
    ]
    texts = [subject_line(EventKind(kind), data, "en") for kind, data in messages(told)]
    assert messages(told)[1][1]["reason"] == away and texts[2].endswith("over; others remain.")
    assert {data["name"] for _, data in messages(told)} == {"gate"}


def test_a_video_job_without_a_signal_is_told_with_the_cause(told: Container) -> None:
    job = running_video(told.video, "ada", now=now())
    note = "No signal: the connection was lost. The source is opened again until it is back."
    report = {"job_uid": job.uid, "seq": 101, "results": [], "flags": ["no_signal"], "note": note, "silent_s": 1.0}
    told.video.reports.take(report, node="edge0", now=now())
    ((kind, data),) = messages(told)
    assert (kind, data["flags"], data["reason"]) == ("video.alert", ["no_signal"], note)


def test_what_was_undone_is_not_told_and_the_same_is_told_once(told: Container) -> None:
    with pytest.raises(RuntimeError), told.database.write() as conn:
        publish(conn, failed_job())
        raise RuntimeError
    assert messages(told) == []
    for _ in range(2):
        with told.database.write() as conn:
            publish(conn, failed_job())
    assert [kind for kind, _ in messages(told)] == ["job.failed"]


def test_a_target_of_one_subject_or_kind_hears_of_nothing_else(told: Container) -> None:
    one = NewTarget(Kind.WEBHOOK, "https://example.org/one", subject="job:7")
    target = told.notifications.targets.add("bob", one)
    for job_id in ("7", "8"):
        told.notifications.outbox.note(failed_job("bob", job_id))
    told.notifications.targets.change("bob", target.target_id, is_enabled=False)
    told.notifications.outbox.note(failed_job("bob", "7x"))
    subjects = [json.loads(each.body)["data"]["subject"] for each in told.notifications.outbox.newest("bob")]
    assert subjects == ["job:7"]


def test_what_ended_long_ago_is_forgotten(told: Container) -> None:
    told.notifications.outbox.note(failed_job())
    (delivery,) = told.notifications.outbox.newest("ada")
    assert told.notifications.outbox.forget_old(now() + timedelta(days=99)) == 0, "it waits still"
    told.notifications.targets.change("ada", delivery.target_id, label=to_text(now()))
    told.notifications.targets.remove("ada", delivery.target_id)
    assert told.notifications.outbox.newest("ada") == []
