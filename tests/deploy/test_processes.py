"""The table of processes is what systemd, Compose and Kubernetes start: a file that says otherwise fails here."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import pytest
import yaml

from app.kit.queue.messages import Message, Queue
from app.standalone.processes import PROCESSES, STAGES, WEB
from tests.harness.deployment_files import COMPOSE, KUBERNETES, SYSTEMD, compose, kubernetes_sources, pods, unit

WORKER = "modelmill-worker@.service"
"""Of each stage: %j is its queue."""
NAMES = {"homes": "sftp"}
"""Of a process where Compose or Kubernetes call it otherwise."""


def as_typed(words: list[str]) -> list[str]:
    """Without the folder of the program and without what is the installation's own: addresses and time limits."""
    words_typed = [Path(words[0]).name, *words[1:]]
    return words_typed[: len(WEB.command)] if words_typed[0] == WEB.program else words_typed


def in_table(names: set[str]) -> dict[str, list[str]]:
    return {name: PROCESSES[name].command for name in names}


def test_every_queue_is_served_by_one_process_and_every_message_waits_on_one() -> None:
    served = Counter(queue for process in PROCESSES.values() for queue in process.queues)
    assert served == dict.fromkeys(Queue, 1)
    assert {message.queue for message in Message} == set(Queue)


def test_systemd_starts_what_the_table_says() -> None:
    commands = {
        path.stem.removeprefix("modelmill-"): as_typed(shlex.split(unit(path)["Service"]["ExecStart"]))
        for path in SYSTEMD.glob("*.service")
        if path.name not in {WORKER, "modelmill-node.service", "modelmill-redis.service"}
    }
    assert commands == in_table(set(PROCESSES) - set(STAGES))
    worker = as_typed(shlex.split(unit(SYSTEMD / WORKER)["Service"]["ExecStart"]))
    for stage in STAGES:
        assert [word.replace("%j", stage) for word in worker] == PROCESSES[stage].command


def test_compose_starts_what_the_table_says(tmp_path: Path) -> None:
    services = compose(tmp_path, "compose.yaml", "compose.train.yaml")["services"]
    commands = {
        NAMES.get(name, name): as_typed(service["command"])
        for name, service in services.items()
        if name not in {"redis", "s3"}
    }
    assert commands == in_table(set(PROCESSES))


def test_kubernetes_starts_what_the_table_says() -> None:
    commands = {
        NAMES.get(name, name): as_typed(pod["containers"][0]["command"])
        for name, pod in pods([*kubernetes_sources(), *training()]).items()
        if name not in {"redis", "s3", "postgres"}
    }
    assert commands == in_table(set(PROCESSES))


def training() -> list[dict[str, object]]:
    """The overlay's own resources, without kustomize."""
    documents = yaml.safe_load_all((KUBERNETES / "training" / "training.yaml").read_text())
    return [document for document in documents if document]


@pytest.mark.parametrize("folder", [COMPOSE, KUBERNETES], ids=lambda folder: folder.name)
def test_whoever_gives_signs_of_life_is_asked_for_them_by_its_queue(folder: Path) -> None:
    texts = " ".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    words = texts.replace(",", " ").replace("]", " ").split()
    queues = {words[at + 1] for at, word in enumerate(words) if word == "--queue"}
    assert queues == {*STAGES, Queue.DONE}
