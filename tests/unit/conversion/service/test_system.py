from __future__ import annotations

import json

from app.bootstrap.container import Container, assemble
from app.conversion.options import ToolchainName
from app.conversion.service.system import read_system
from app.conversion.system_schemas import SystemAnswer
from app.kit.clock import now
from app.settings import Settings
from tests.harness.valkey import Valkey


def test_without_workers_nothing_is_ready_and_each_queue_says_what_to_run(
    container: Container, settings: Settings
) -> None:
    system = read_system(container.conversion, settings, "local", now())
    assert not system.is_ready
    assert [queue.command for queue in system.stages] == [
        f"dramatiq actors --queues {queue} --processes 1 --threads 1" for queue in ("onnx", "bie", "nef")
    ]
    assert system.scheduler is not None
    assert not system.scheduler.workers


def test_a_job_of_another_user_is_counted_but_not_named(container: Container, settings: Settings) -> None:
    heartbeat = {
        "queue": "bie",
        "host": "h",
        "pid": 1,
        "started_at": 1e9,
        "job_id": "someone's",
        "toolchains": ["host"],
    }
    container.store.announce("h/bie/0", json.dumps(heartbeat), 3600)
    (worker,) = read_system(container.conversion, settings, "local", now()).stages[1].workers
    assert (worker.is_busy, worker.job_id, worker.progress) == (True, "", None)


def test_bie_capacity_is_the_number_of_living_bie_workers(container: Container, settings: Settings) -> None:
    for number in range(3):
        heartbeat = {"queue": "bie", "host": "h", "pid": number, "started_at": 1e9, "job_id": None, "toolchains": []}
        container.store.announce(f"h/bie/{number}", json.dumps(heartbeat), 3600)
    bie = read_system(container.conversion, settings, "local", now()).bie
    assert bie is not None
    assert (len(bie.workers), bie.busy) == (3, 0)


def test_a_toolchain_that_no_worker_of_a_stage_has_is_named(container: Container, settings: Settings) -> None:
    offered = settings.model_copy(update={"toolchains": [ToolchainName.HOST, ToolchainName.KNERON]})
    for queue, toolchains in (("onnx", ["host", "kneron"]), ("bie", ["host"]), ("nef", ["host", "kneron"])):
        heartbeat = {"queue": queue, "host": "h", "pid": 1, "started_at": 1e9, "job_id": None, "toolchains": toolchains}
        container.store.announce(f"h/{queue}/0", json.dumps(heartbeat), 3600)
    assert read_system(container.conversion, offered, "local", now()).unserved == ("kneron",)
    assert read_system(container.conversion, settings, "local", now()).unserved == ()


def test_a_redis_that_is_away_is_told_and_not_raised(own_valkey: Valkey, settings: Settings) -> None:
    container = assemble(settings.model_copy(update={"redis_url": own_valkey.url(0)}))
    own_valkey.kill()
    system = read_system(container.conversion, settings, "local", now())
    assert not system.redis.is_up
    assert system.redis.problem
    assert system.queues == ()
    assert system.store.is_up
    assert not SystemAnswer.model_validate(system).is_ready
    container.close()
