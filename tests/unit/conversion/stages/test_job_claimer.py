"""A worker comes by a job: by the fetch of its message, or by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from dramatiq import Worker

from app.bootstrap.container import Container
from app.conversion import model
from app.conversion.model import Stage, StageState
from app.conversion.options import Options
from app.conversion.stages.job_claimer import JobClaimer
from app.kit.process.slots import Slot, take_slot
from app.kit.queue.blocking_consumer import MESSAGE_ID
from app.kit.queue.inline_worker import InlineWork
from tests.unit.kit.queue.test_blocking_broker import brought_while_ending

NOW = "2026-11-20T00:00:00.000Z"
FOLDER = "/nowhere"


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Slot]:
    taken, _ = take_slot(tmp_path, "onnx", "here")
    yield taken
    taken.release()


@pytest.fixture
def claimer(container: Container, slot: Slot) -> JobClaimer:
    """Of a worker that processes what it fetches in the thread that fetched it."""
    InlineWork().before_worker_boot(container.broker, Worker(container.broker, queues={"onnx"}, worker_threads=1))
    made = JobClaimer(Stage.ONNX, slot, container.store, container.broker)
    container.broker.claimers["onnx"] = made
    return made


def submit(container: Container) -> str:
    record = model.submitted(
        str(uuid4()), now=NOW, owner="local", name="Gesicht 臉", tags=(), options=Options(), inputs={}, intake={}
    )
    container.store.create(record, score=1.0, message=container.conversion.dispatch.prepare(Stage.ONNX, record.job_id))
    return record.job_id


def fetch(container: Container) -> None:
    """No actor is known here, so nothing is done with the message."""
    consumer = container.broker.consume("onnx", timeout=10)
    message = next(consumer)
    assert message is not None
    consumer.ack(message)
    consumer.close()


def test_the_fetch_of_a_message_claims_its_job_and_brings_the_record(container: Container, claimer: JobClaimer) -> None:
    job_id = submit(container)
    fetch(container)
    claimed = container.store.require(job_id)
    assert (claimed.current.state, claimed.current.worker) == (StageState.RUNNING, "here/onnx/0")
    container.redis.config_resetstat()
    assert claimer.take(job_id, FOLDER) == claimed
    assert "cmdstat_evalsha" not in container.redis.info("commandstats"), "nothing more had to be asked"


def test_no_job_is_claimed_whose_message_has_no_text_any_more(container: Container, claimer: JobClaimer) -> None:
    job_id = submit(container)
    container.broker.client.hdel("queue:onnx.msgs", job_id)
    assert next(container.broker.consume("onnx", timeout=10)) is None
    assert container.store.require(job_id).current.state is StageState.QUEUED


def test_a_job_that_is_not_waiting_is_neither_changed_nor_taken(container: Container, claimer: JobClaimer) -> None:
    job_id = submit(container)
    assert container.store.apply(job_id, model.cancelled(Stage.ONNX, now=NOW))
    fetch(container)
    assert claimer.take(job_id, FOLDER) is None


def test_a_message_that_comes_twice_is_taken_once(container: Container, claimer: JobClaimer) -> None:
    job_id = submit(container)
    fetch(container)
    assert claimer.take(job_id, FOLDER)
    container.conversion.dispatch.enqueue(Stage.ONNX, job_id)
    fetch(container)
    assert claimer.take(job_id, FOLDER) is None


def test_a_message_without_the_jobs_id_is_claimed_when_its_work_begins(
    container: Container, claimer: JobClaimer
) -> None:
    """As a stock Dramatiq process sends it."""
    job_id = submit(container)
    container.broker.take_back("onnx", job_id)
    container.broker.send("onnx", "run_onnx", job_id=job_id)
    fetch(container)
    assert container.store.require(job_id).current.state is StageState.QUEUED
    taken = claimer.take(job_id, FOLDER)
    assert taken
    assert taken.current.worker == "here/onnx/0"


def test_no_fetch_claims_for_a_worker_whose_threads_may_be_busy(container: Container, claimer: JobClaimer) -> None:
    container.broker.work_inline = None
    job_id = submit(container)
    assert next(container.broker.consume("onnx", timeout=10))
    assert container.store.require(job_id).current.state is StageState.QUEUED


def test_the_slot_tells_what_was_begun_last_and_the_claim_that_the_next_fetch_makes(
    container: Container, claimer: JobClaimer, slot: Slot
) -> None:
    ready = slot.read()
    assert ready
    assert (ready.record_id, ready.claim) == ("", "")
    job_id = submit(container)
    fetch(container)
    claimer.take(job_id, FOLDER)
    begun = slot.read()
    assert begun
    assert (begun.record_id, begun.claim, begun.work_dir) == (job_id, ready.next_claim, FOLDER)
    assert container.store.require(job_id).claim == begun.claim
    fetched_since = submit(container)
    fetch(container)
    assert container.store.require(fetched_since).claim == begun.next_claim != begun.claim


def test_a_job_that_was_fetched_after_another_was_begun_is_given_back_alone(
    container: Container, claimer: JobClaimer
) -> None:
    begun = submit(container)
    fetch(container)
    claimer.take(begun, FOLDER)
    fetched = submit(container)
    fetch(container)
    for job_id in (begun, fetched):
        claimer.give_back(job_id)
    states = [container.store.require(job_id).current.state for job_id in (begun, fetched)]
    assert states == [StageState.RUNNING, StageState.QUEUED]


def test_a_job_that_is_parked_waits_again(container: Container, claimer: JobClaimer) -> None:
    job_id = submit(container)
    fetch(container)
    claimer.take(job_id, FOLDER)
    claimer.park(job_id)
    assert container.store.require(job_id).current.state is StageState.QUEUED


def test_a_job_whose_fetch_was_cut_off_is_given_back_and_claimed_anew(
    container: Container, claimer: JobClaimer
) -> None:
    """The answer was lost with the connection: the server knows of the claim, the worker does not."""
    job_id = submit(container)
    container.broker.do_fetch("onnx", 1)
    assert container.store.claim(job_id, model.claimed(Stage.ONNX, worker="here/onnx/0", token=_token(claimer)))
    fetch(container)
    taken = claimer.take(job_id, FOLDER)
    assert taken
    assert taken.claim == container.store.require(job_id).claim


def test_what_a_fetch_still_brings_while_the_process_ends_is_given_back(
    container: Container, claimer: JobClaimer
) -> None:
    broker = container.broker
    consumer = broker.consume("onnx", timeout=2000)
    assert next(consumer) is None
    message = brought_while_ending(broker, consumer, lambda: submit(container))
    job_id = message.options[MESSAGE_ID]
    assert container.store.require(job_id).current.state is StageState.RUNNING
    consumer.requeue([message])
    record = container.store.require(job_id)
    assert (record.current.state, record.claim) == (StageState.QUEUED, "")
    assert broker.position("onnx", job_id) == 0


def test_what_was_cut_off_between_its_fetch_and_its_work_is_known(container: Container, claimer: JobClaimer) -> None:
    job_id = submit(container)
    fetch(container)
    assert claimer.unbegun() == [job_id]
    claimer.take(job_id, FOLDER)
    assert claimer.unbegun() == []


def _token(claimer: JobClaimer) -> str:
    return claimer._next.rpartition("#")[2]
