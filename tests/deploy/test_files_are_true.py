"""What all deployment files say about the product is true of it, whatever their kind."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from app.kit.network.keep_alive import KEEP_ALIVE_S
from app.kit.queue.messages import Queue
from app.settings import GIB, Settings
from tests.harness.deployment_files import (
    DOCKERFILES,
    FILES,
    STAGES,
    SYSTEMD,
    compose,
    env_of,
    kubernetes_sources,
    pods,
    unit,
)

SETTINGS = {f"MODELMILL_{name.upper()}" for name in Settings.model_fields}
OTHERS = {"MODELMILL_SECRETS_DIR", "MODELMILL_PYTHON", "MODELMILL_NODE_TOKEN"}
"""Read before there are settings, by app/settings and ops/lib.sh; and by the agent of a node, which has none."""
IMAGES = {"MODELMILL_IMAGE", "MODELMILL_KNERON_IMAGE", "MODELMILL_TRAIN_IMAGE"}
"""Compose's own."""
REDIS_COMMAND = ["--save", "", "--appendonly", "no"]
SPARE_S = 10


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    composed: dict[str, Any] = compose(tmp_path_factory.mktemp("compose"), "compose.yaml", "compose.train.yaml")[
        "services"
    ]
    return composed


def commands(services: dict[str, Any]) -> list[list[str]]:
    """Every command line of the product in Compose, Kubernetes, systemd and the images."""
    lines = [service["command"] for service in services.values()]
    lines += [pod["containers"][0]["command"] for pod in pods(kubernetes_sources()).values()]
    lines += [shlex.split(unit(path)["Service"]["ExecStart"]) for path in SYSTEMD.glob("*.service")]
    text = "".join(path.read_text() for path in DOCKERFILES)
    lines += [shlex.split(line.replace(",", " ")) for line in re.findall(r"^CMD \[(.*)\]$", text, re.MULTILINE)]
    return [[Path(words[0]).name, *words[1:]] for words in lines]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_of_ours_is_a_setting(path: Path) -> None:
    named = set(re.findall(r"\bMODELMILL_[A-Z0-9_]+", path.read_text()))
    assert named <= SETTINGS | OTHERS | IMAGES


def test_every_queue_is_one_that_there_is_and_every_one_has_its_workers(services: dict[str, Any]) -> None:
    served: list[str] = []
    for words in commands(services):
        if words[0] == "dramatiq":
            assert words[1] == "actors"
            served += words[words.index("--queues") + 1 : words.index("--processes")]
    assert set(served) - {"%j"} == set(Queue)


def test_every_worker_has_one_job_at_a_time(services: dict[str, Any]) -> None:
    seen = 0
    for words in commands(services):
        if words[0] == "dramatiq" and words[words.index("--queues") + 1] in {*STAGES, "%j"}:
            assert words[-4:] == ["--processes", "1", "--threads", "1"]
            seen += 1
    assert seen >= 2 * len(STAGES) + 1


def test_redis_keeps_nothing(services: dict[str, Any]) -> None:
    servers = [words for words in commands(services) if words[0] in {"valkey-server", "redis-server"}]
    assert len(servers) == 3
    for words in servers:
        at = words.index("--save")
        assert words[at : at + 4] == REDIS_COMMAND
    assert "volumes" not in services["redis"]
    assert all("persistentVolumeClaim" not in volume for volume in pods(kubernetes_sources())["redis"]["volumes"])


def test_every_image_is_pinned_to_a_version(services: dict[str, Any]) -> None:
    images = [service["image"] for service in services.values()]
    images += [pod["containers"][0]["image"] for pod in pods(kubernetes_sources()).values()]
    text = "".join(path.read_text() for path in DOCKERFILES)
    images += re.findall(r"^ARG \w+_IMAGE=(\S+)$", text, re.MULTILINE)
    assert len(images) > 10
    for image in images:
        assert re.search(r":v?\d+\.\d+(\.\d+)?(-[a-z0-9-]+)?$", image), image
    assert not re.findall(r"^FROM (?!\$\{)", text, re.MULTILINE)


def test_no_secret_stands_in_a_file() -> None:
    secret = "secret_key|s3_access_key|s3_secret_key|redis_url|password|requirepass"
    for path in FILES:
        if path.name in {"make-secrets", "install-systemd"}:  # these make them
            continue
        for line in path.read_text().splitlines():
            assert not re.search(rf"(MODELMILL_)?({secret})\"?\s*[:=]\s*[\"']?\w", line, re.IGNORECASE) or (
                "{file:" in line or "key: redis_password" in line
            ), f"{path.name}: {line}"
    assert not [it for it in kubernetes_sources() if it["kind"] == "Secret"]


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_whoever_stops_a_worker_waits_longer_than_the_worker_may_take(services: dict[str, Any]) -> None:
    waits = [
        (services[stage]["environment"]["MODELMILL_SHUTDOWN_GRACE_S"], seconds(services[stage]["stop_grace_period"]))
        for stage in STAGES
    ]
    for stage in STAGES:
        pod = pods(kubernetes_sources())[stage]
        waits.append((env_of(pod)["MODELMILL_SHUTDOWN_GRACE_S"], pod["terminationGracePeriodSeconds"]))
    service = unit(SYSTEMD / "modelmill-worker@.service")["Service"]
    grace = service["Environment"].removeprefix("MODELMILL_SHUTDOWN_GRACE_S=")
    waits.append((grace, seconds(service["TimeoutStopSec"])))
    assert len(waits) == 7
    for grace_s, stop_s in waits:
        assert int(grace_s) + SPARE_S <= stop_s


def test_whoever_stops_a_web_waits_longer_than_the_web_may_take(services: dict[str, Any]) -> None:
    pod = pods(kubernetes_sources())["web"]
    web = unit(SYSTEMD / "modelmill-web.service")["Service"]
    before_s = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    waits = [
        (services["web"]["command"], seconds(services["web"]["stop_grace_period"])),
        (pod["containers"][0]["command"], pod["terminationGracePeriodSeconds"] - before_s),
        (shlex.split(web["ExecStart"]), seconds(web["TimeoutStopSec"])),
    ]
    for words, stop_s in waits:
        assert int(words[words.index("--timeout-graceful-shutdown") + 1]) < stop_s


def test_a_web_keeps_idle_connections_as_long_as_the_product_says(services: dict[str, Any]) -> None:
    webs = [words for words in commands(services) if words[0] == "uvicorn"]
    assert len(webs) == 4
    for words in webs:
        assert int(words[words.index("--timeout-keep-alive") + 1]) == KEEP_ALIVE_S


def test_a_stage_out_of_memory_is_noticed_before_its_container_is_killed(services: dict[str, Any]) -> None:
    limits = [
        (
            services[s]["environment"]["MODELMILL_STAGE_MEMORY_BYTES"],
            services[s]["deploy"]["resources"]["limits"]["memory"],
        )
        for s in STAGES
    ]
    for stage in STAGES:
        pod = pods(kubernetes_sources())[stage]
        limits.append(
            (env_of(pod)["MODELMILL_STAGE_MEMORY_BYTES"], pod["containers"][0]["resources"]["limits"]["memory"])
        )
    for stage_bytes, container in limits:
        assert int(stage_bytes) + GIB // 2 <= int(container.rstrip("gGi")) * GIB


def test_a_stage_uses_as_many_threads_as_its_container_has_cores(services: dict[str, Any]) -> None:
    for stage in STAGES:
        service = services[stage]
        cpus = service["deploy"]["resources"]["limits"]["cpus"]
        assert service["environment"]["MODELMILL_STAGE_THREADS"] == str(cpus)
        pod = pods(kubernetes_sources())[stage]
        assert env_of(pod)["MODELMILL_STAGE_THREADS"] == pod["containers"][0]["resources"]["limits"]["cpu"]
