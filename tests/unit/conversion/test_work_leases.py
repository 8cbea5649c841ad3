"""One does the work and the others wait; nobody waits for ever."""

from __future__ import annotations

from uuid import uuid4

import pytest
import redis

from app.bootstrap.container import Container
from app.conversion import model
from app.conversion.model import Stage, StageState
from app.conversion.options import Options
from app.conversion.work_leases import Turn, WorkLeases
from app.kit.clock import now, to_text

WORK = "cache/alice/key/"


def leases_of(container: Container, resumed: list[str], ttl_s: float = 30.0) -> WorkLeases:
    return WorkLeases(container.redis, resumed.append, ttl_s=ttl_s)


def test_the_second_waits_and_is_sent_for_when_the_first_has_ended(container: Container) -> None:
    resumed: list[str] = []
    leases = leases_of(container, resumed)
    with leases.turn(WORK, "first") as first:
        with leases.turn(WORK, "second") as second, leases.turn("another", "third") as third:
            assert (first, second, third) == (Turn.MINE, Turn.PARKED, Turn.MINE)
        assert (resumed, leases.parked(), leases.overdue()) == ([], {"second"}, set())
    assert (resumed, leases.parked()) == (["second"], set())
    with leases.turn(WORK, "second") as again:
        assert again is Turn.MINE


def test_a_first_that_fails_sends_for_the_second_too(container: Container) -> None:
    resumed: list[str] = []
    leases = leases_of(container, resumed)
    with pytest.raises(ZeroDivisionError), leases.turn(WORK, "first"):
        with leases.turn(WORK, "second") as second:
            assert second is Turn.PARKED
        raise ZeroDivisionError
    assert resumed == ["second"]


def test_who_waits_for_a_dead_one_is_overdue_once(container: Container) -> None:
    resumed: list[str] = []
    leases = leases_of(container, resumed)
    with leases.turn(WORK, "first"), leases.turn(WORK, "second"):
        container.redis.delete(f"stage-work:{WORK}")  # it has run out
        assert leases.overdue() == {"second"}
        assert leases.overdue() == set()
    assert resumed == []


def test_it_is_renewed_as_long_as_the_work_takes(container: Container) -> None:
    leases = leases_of(container, [], ttl_s=60.0)
    with leases.turn(WORK, "first"):
        assert 0 < container.redis.pttl(f"stage-work:{WORK}") <= 60_000
    assert not container.redis.exists(f"stage-work:{WORK}")


def test_without_redis_everybody_does_it(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise redis.ConnectionError

    leases = leases_of(container, [])
    monkeypatch.setattr(container.redis, "set", refuse)
    with leases.turn(WORK, "first") as turn:
        assert turn is Turn.MINE


def test_a_parked_job_is_left_alone_by_the_sweep_and_resumed_where_it_stood(container: Container) -> None:
    dispatch, store = container.conversion.dispatch, container.store
    record = model.submitted(
        str(uuid4()), now=to_text(now()), owner="local", name="", tags=(), options=Options(), inputs={}, intake={}
    )
    store.create(record, score=1.0)
    for _ in range(2):
        dispatch.sweep(parked={record.job_id})
    assert not container.redis.exists(f"suspect:queued:onnx:{record.job_id}")
    assert not container.broker.holds("onnx", record.job_id)
    dispatch.resume(record.job_id)
    assert container.broker.holds("onnx", record.job_id)
    assert store.require(record.job_id).stages[Stage.ONNX.step].state is StageState.QUEUED
    assert store.apply(record.job_id, model.cancelled(Stage.ONNX, now=to_text(now())))
    container.broker.take_back("onnx", record.job_id)
    dispatch.resume(record.job_id)
    assert not container.broker.holds("onnx", record.job_id), "it was cancelled while it waited"
