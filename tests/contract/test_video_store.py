"""One suite over both databases: video jobs, their numbers, events and decisions, stages and measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from app.bootstrap.accounts import MIGRATIONS
from app.kit.clock import to_text
from app.kit.sql import Database, migrations
from app.results import store as results
from app.results.model.frame_result import FrameRecord, ResultFilter
from app.video import store
from app.video.model.constraint import read_constraint
from app.video.model.dag import read_dag
from app.video.model.job import CANNOT_RUN, UNCHANGED, Ending, JobState, Mode, RestartPolicy, VideoJob
from app.video.model.kinds import StageSpec
from app.video.model.report import Measurement
from app.video.store import history
from app.video.store.tables import columns_of, jobs
from tests.harness.databases import database, empty, together, url
from tests.harness.video.records import BEGAN, MODELS, dag, measured, plan, plan_result, result, stage

__all__ = ["database", "empty", "url"]
TROUBLES = ("runner_trouble", "cannot_run", "silence")


def job(uid: str = "GLOBAL_ID_1.SUB_ID_1", **other: object) -> VideoJob:
    read = read_dag(dag())
    made = VideoJob(
        uid=uid,
        owner="alice",
        node="edge0",
        video_id="1",
        dag=read,
        stages=tuple(stage(name) for name in read.stages),
        constraint=read_constraint({"delay": [0.1, 0.3], "acc_level": 3}),
        policy="profile",
        restart_policy=RestartPolicy.EOS,
        created_at=to_text(BEGAN),
        secret="a secret",
    )
    return replace(made, **other)  # type: ignore[arg-type]


def add(database: Database, made: VideoJob, number: int = 1) -> None:
    with database.write() as conn:
        store.add_job(conn, store.StoredJob(made, number))


def got(conn: Connection, uid: str = "GLOBAL_ID_1.SUB_ID_1") -> store.StoredJob:
    job = store.get(conn, uid)
    assert job is not None
    return job


def test_a_job_is_read_as_it_was_written(database: Database) -> None:
    made = job(
        mode=Mode.PROFILE,
        realtime=False,
        plan=plan(),
        plan_result=plan_result(),
        results=(result(1), result(2)),
        n_loop=2,
        flags=("degraded",),
        reported_at=to_text(BEGAN),
        memory={"a": [1]},
        progress=0.25,
        reason="why",
        generator_output={"bytes": 1.5},
    )
    kept = store.StoredJob(
        made,
        1,
        plan_seq=7,
        report_seq=3,
        asked=4,
        claimed_at=to_text(BEGAN),
        due_at=to_text(BEGAN),
        is_open=False,
    )
    with database.write() as conn:
        store.add_job(conn, kept)
        assert store.get(conn, made.uid) == store.lock(conn, made.uid) == kept
        assert store.get(conn, "GLOBAL_ID_2.SUB_ID_1") is store.get(conn, "a\0b") is None
    assert got_constraint(database) == {"delay": [0.1, 0.3], "acc_level": 3}


def got_constraint(database: Database) -> dict[str, object]:
    with database.read() as conn:
        return got(conn).job.constraint.to_json()


def test_troubles_told_before_the_migration_are_apart_after_it_and_in_the_reason_again_after_the_way_back(
    empty: Database,
) -> None:
    migrations.move(empty, MIGRATIONS, "0045")
    stopped, stalled, silence = f"{CANNOT_RUN}one\nof two.", f"{UNCHANGED}no space.", "No signal: it is away."
    expected = {
        "No node serves it yet.": ("", False, ""),
        stopped: (stopped, True, ""),
        silence: ("", False, silence),
        f"{stopped}\n{silence}": (stopped, True, silence),
        f"{stalled}\n{silence}": (stalled, False, silence),
    }
    for number, reason in enumerate(expected):
        stored = store.StoredJob(job(f"GLOBAL_ID_{number}.SUB_ID_1", reason=reason), number)
        former = {name: value for name, value in columns_of(stored).items() if name not in TROUBLES}
        with empty.write() as conn:
            conn.execute(sa.insert(jobs).values(**former))
    migrations.upgrade(empty, MIGRATIONS)
    with empty.read() as conn:
        seen = [stored.job for stored in store.list_unended(conn)]
    assert {one.reason: (one.runner_trouble, one.cannot_run, one.silence) for one in seen} == expected
    migrations.move(empty, MIGRATIONS, "0045")
    with empty.read() as conn:
        assert conn.execute(sa.select(jobs.c.reason).order_by(jobs.c.number)).scalars().all() == [*expected]


def test_a_uid_is_one_jobs(database: Database) -> None:
    add(database, job())
    with pytest.raises(store.UidTaken):
        add(database, job(owner="mallory"))
    with database.read() as conn:
        assert got(conn).job.owner == "alice"


def test_numbers_rise_over_all_that_were_brought_and_at_the_same_time(database: Database) -> None:
    numbers: list[int] = []

    def one(_: int) -> None:
        with database.write() as conn:
            numbers.append(store.next_number(conn))

    with database.write() as conn:
        for number in (1, 2, 5):
            store.claim_number(conn, number, "alice")
            with pytest.raises(store.UidTaken):
                store.claim_number(conn, number, "alice")
    assert together(one, 6) == []
    assert len(set(numbers)) == 6
    assert not set(numbers) & {1, 2, 5}


def test_states_follow_each_other_as_they_may_and_each_is_an_event(database: Database) -> None:
    add(database, job())
    uid = job().uid
    with database.write() as conn:
        for state in (JobState.EXEC, JobState.UNSCHED, JobState.EXEC):
            store.change(conn, uid, runner_trouble="It cannot.", cannot_run=True, silence="No signal: it is away.")
            store.enter(conn, got(conn), state, at=to_text(BEGAN), message=f"to {state}")
            assert (got(conn).job.runner_trouble, got(conn).job.cannot_run, got(conn).job.silence) == ("", False, "")
            assert got(conn).job.state is state
            assert got(conn).job.reason == ("" if state is JobState.EXEC else f"to {state}")
        with pytest.raises(store.InvalidTransition):
            store.enter(conn, got(conn), JobState.EXEC, at="", message="")
        store.enter(conn, got(conn), JobState.DONE, at=to_text(BEGAN), message="so", ending=Ending.ERROR)
        for state in JobState:
            with pytest.raises(store.InvalidTransition):
                store.enter(conn, got(conn), state, at="", message="")
        ended = got(conn).job
        assert (ended.ending, ended.ended_at, ended.reason) == (Ending.ERROR, to_text(BEGAN), "so")
        assert [event.type for event in store.events_of(conn, uid)] == ["UNSCHED", "EXEC", "UNSCHED", "EXEC", "DONE"]
        assert store.count_by_state(conn) == {"DONE": 1}


def test_jobs_are_found_by_owner_state_text_and_place(database: Database) -> None:
    for number in range(1, 6):
        made = job(f"GLOBAL_ID_{number}.SUB_ID_1", created_at=f"2026-11-22T02:00:0{number % 3}.000Z")
        add(database, replace(made, owner="bob") if number == 5 else made, number)
    with database.write() as conn:
        store.change(conn, "GLOBAL_ID_2.SUB_ID_1", node="edge1", plan=plan().to_json(), is_open=False)
        store.change(conn, "GLOBAL_ID_3.SUB_ID_1", node="edge_")
        store.enter(conn, got(conn), JobState.DONE, at="2026-11-22T03:00:00.000Z", message="")
        everything = store.page(conn, "alice", store.JobFilter(), before=None, limit=9)
        uids = [kept.job.uid for kept in everything]
        assert [uid[10] for uid in uids] == ["2", "4", "1", "3"]
        last = everything[1].job
        rest = store.page(conn, "alice", store.JobFilter(), before=(last.created_at, last.uid), limit=9)
        assert [kept.job.uid for kept in rest] == uids[2:]
        text = store.page(conn, "alice", store.JobFilter(text="EDGE_"), before=None, limit=9)
        assert [kept.job.node for kept in text] == ["edge_"]
        assert store.page(conn, "alice", store.JobFilter(text="a\0"), before=None, limit=9) == []
        done = store.page(conn, "alice", store.JobFilter(JobState.DONE), before=None, limit=9)
        assert [kept.job.uid for kept in done] == ["GLOBAL_ID_1.SUB_ID_1"]
        assert store.count_unended(conn, "alice") == 3
        assert [kept.number for kept in store.list_unended(conn)] == [2, 3, 4, 5]
        assert [kept.number for kept in store.list_unended(conn, owner="bob")] == [5]
        assert "GLOBAL_ID_2.SUB_ID_1" not in store.open_uids(conn)
        assert len(store.open_uids(conn)) == 4
        assert store.list_ended_before(conn, "2026-11-22T03:00:00.001Z") == ["GLOBAL_ID_1.SUB_ID_1"]
        assert store.list_ended_before(conn, "2026-11-22T03:00:00.000Z") == []


def test_only_the_newest_events_and_decisions_stay(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "HISTORY", 20)
    add(database, job())
    uid = job().uid
    with database.write() as conn:
        for number in range(23):
            store.add_event(conn, uid, "2026", type="Note", message=f"{number}")
            decided = store.DecisionRecord(
                "2026", number, "p", "period", "new", "why", 1.5, "hash", plan(number).to_json()
            )
            store.add_decision(conn, uid, replace(decided, plan=None) if number == 22 else decided)
        events, decisions = store.events_of(conn, uid), store.decisions_of(conn, uid, 1000)
        assert (len(events), events[0].message, events[-1].message) == (20, "3", "22")
        assert (len(decisions), decisions[0].seq, decisions[-1].seq) == (20, 22, 3)
        assert (decisions[0].plan, decisions[1].plan) == (None, plan(21).to_json())
        assert store.last_decision(conn, uid) == decisions[0]
        store.forget(conn, [uid])
        assert store.events_of(conn, uid) == store.decisions_of(conn, uid, 10) == []
        assert store.get(conn, uid) is store.last_decision(conn, uid) is None


def test_the_catalogue_is_by_name_and_a_stage_takes_the_place_of_another(database: Database) -> None:
    with database.write() as conn:
        for name in sorted(MODELS, reverse=True):
            store.put_stage(conn, store.StoredStage("alice", "2026", StageSpec(name, name, MODELS[name]), stage(name)))
        other = store.StoredStage("bob", "2027", StageSpec("face_alignment", "k", ()), stage("face_detection"))
        store.put_stage(conn, other)
        assert [listed.spec.name for listed in store.all_stages(conn)] == ["face_alignment", "face_detection"]
        assert store.get_stage(conn, "face_alignment") == other
        assert store.remove_stage(conn, "face_alignment")
        assert not store.remove_stage(conn, "face_alignment")
        assert store.get_stage(conn, "face_alignment") is None


def test_what_is_measured_again_takes_the_place_of_what_was(database: Database) -> None:
    rows = measured(BEGAN)
    with database.write() as conn:
        store.put_measurements(conn, rows)
        store.put_measurements(conn, [replace(rows[0], delay_s=9.0)])
        assert len(store.measurements(conn)) == len(rows)
        measurements = store.measurements(conn, node=rows[0].node, stage=rows[0].stage)
        assert measurements[0].delay_s == 9.0
        assert [(row.model_id, row.resolution) for row in measurements[:4]] == [
            (0, "360p"),
            (0, "480p"),
            (0, "720p"),
            (1, "360p"),
        ]
        assert store.measurements(conn, stages=["nothing"]) == []
        assert all(isinstance(row, Measurement) for row in measurements)


# --- rows of frames ---------------------------------------------------------------------------------
def row(n_loop: int, *labels: str, hour: int = 8) -> FrameRecord:
    boxes = [[0.0, 0.0, 9.0, 9.0] for _ in labels]
    scores = [0.5 + 0.1 * place for place in range(len(labels))]
    content = {"n_loop": n_loop, "total": len(labels), "bbox": boxes, "labels": list(labels), "scores": scores}
    return FrameRecord(n_loop, f"2026-11-22T{hour:02}:00:00.000Z", content)


UID = "GLOBAL_ID_1.SUB_ID_1"
STORED, LATER = "2026-11-22T10:00:00.000Z", "2026-11-22T11:00:00.000Z"


def numbers_of(database: Database, chosen: ResultFilter | None = None, **more: object) -> list[int]:
    with database.read() as conn:
        rows = results.rows_of(conn, UID, chosen or ResultFilter(), **{"limit": 100, **more})  # type: ignore[arg-type]
    return [one.n_loop for one in rows]


def test_rows_are_kept_once_and_found_by_frame_time_and_class(database: Database) -> None:
    with database.write() as conn:
        results.add_rows(conn, UID, [row(1, "person", hour=7), row(2, "car"), row(3, "person", "car", hour=9)], STORED)
        results.add_rows(conn, UID, [row(3), row(4, "personnel", hour=9)], LATER)
        results.add_rows(conn, "GLOBAL_ID_2.SUB_ID_1", [row(1, "person")], STORED)
    assert numbers_of(database) == [1, 2, 3, 4]
    assert numbers_of(database, newest_first=True, before=4, limit=2) == [3, 2]
    assert numbers_of(database, after=2) == [3, 4]
    assert numbers_of(database, ResultFilter(label="person")) == [1, 3]
    assert numbers_of(database, ResultFilter(label="per%")) == []
    assert numbers_of(database, ResultFilter(since="2026-11-22T08:00:00.000Z", until="2026-11-22T09:00:00.000Z")) == [2]
    with database.read() as conn:
        kept = results.rows_of(conn, UID, ResultFilter(), after=2, limit=1)[0]
    assert kept == replace(row(3, "person", "car", hour=9), stored_at=STORED), "the first one that came stays"


def test_old_rows_go_and_a_job_keeps_its_newest(database: Database) -> None:
    with database.write() as conn:
        results.add_rows(conn, UID, [row(1), row(2, hour=23)], STORED)
        results.add_rows(conn, UID, [row(n, hour=1) for n in range(3, 9)], LATER)
        assert results.forget_rows_before(conn, LATER) == 2, "by the web's clock, not by those of nodes"
        assert results.trim_rows(conn, UID, 4) == 2
        assert results.trim_rows(conn, UID, 4) == 0
    assert numbers_of(database) == [5, 6, 7, 8]


def test_a_forgotten_job_takes_its_rows_along(database: Database) -> None:
    with database.write() as conn:
        results.add_rows(conn, UID, [row(1)], STORED)
        store.forget(conn, [UID])
    assert numbers_of(database) == []
