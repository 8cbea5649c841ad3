"""The Compose files: valid, hardened, and the minimum deployment of the requirement."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness.deployment_files import COMPOSE, DEPLOY, STAGES, command, compose

OURS = ("web", "sftp", "scheduler", "controller", "pulse", *STAGES)
FOR_KUBERNETES = {"redis_password", "postgres_password", "modelmill_database_url"}


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return compose(tmp_path_factory.mktemp("compose"))


@pytest.fixture(scope="module")
def services(composed: dict[str, Any]) -> dict[str, Any]:
    every: dict[str, Any] = composed["services"]
    return every


def test_the_files_follow_the_compose_specification() -> None:
    files = [COMPOSE / name for name in ("compose.yaml", "compose.kneron.yaml", "compose.train.yaml")]
    checker = [command("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *map(str, files)]
    ran = subprocess.run(checker, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_it_is_the_minimum_deployment(services: dict[str, Any]) -> None:
    assert set(services) == {*OURS, "redis", "s3"}
    assert [services[stage]["deploy"]["replicas"] for stage in STAGES] == ["1", "1", "1"]


def test_the_workers_and_the_secrets_are_those_that_the_operator_says(tmp_path: Path) -> None:
    subprocess.run([DEPLOY / "make-secrets", tmp_path / "secrets"], check=True, capture_output=True)
    made = {path.name for path in (tmp_path / "secrets").iterdir()}
    variables = {"ONNX_WORKERS": "2", "BIE_WORKERS": "3", "NEF_WORKERS": "4", "SECRETS": str(tmp_path / "secrets")}
    composed = compose(tmp_path, **variables)
    assert [composed["services"][stage]["deploy"]["replicas"] for stage in STAGES] == ["2", "3", "4"]
    given = composed["secrets"].values()
    assert {Path(secret["file"]).name for secret in given} == made - FOR_KUBERNETES
    assert all(Path(secret["file"]).is_file() for secret in given)


def test_every_container_may_do_as_little_as_possible(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert not service["user"].startswith(("0", "root")), name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert {"cpus", "memory", "pids"} == set(service["deploy"]["resources"]["limits"]), name
        assert service["restart"] == "unless-stopped", name
        assert "/tmp" in service["tmpfs"][0], name
        assert not service.get("privileged") and "cap_add" not in service, name


def test_every_container_but_pulse_and_controller_is_asked_for_its_health(services: dict[str, Any]) -> None:
    assert {name for name, service in services.items() if "healthcheck" not in service} == {"pulse", "controller"}
    for stage in STAGES:
        assert services[stage]["healthcheck"]["test"][-1] == stage


def test_the_master_of_a_worker_is_process_1(services: dict[str, Any]) -> None:
    for name in OURS:
        assert "init" not in services[name], name
        assert services[name]["command"][0] in {"dramatiq", "periodiq", "uvicorn", "modelmill"}, name


def test_only_the_web_and_sftp_can_be_reached_and_by_default_from_this_host_only(services: dict[str, Any]) -> None:
    assert {name: service["ports"] for name, service in services.items() if "ports" in service} == {
        "web": ["127.0.0.1:8080:8080"],
        "sftp": ["127.0.0.1:2022:2022"],
    }
    in_front = {name for name, service in services.items() if "front" in service["networks"]}
    assert in_front == {"web", "sftp", "controller"}
    assert services["sftp"]["networks"] == ["front"], "it needs neither Redis nor the store"


def test_the_accounts_and_the_homes_outlive_the_containers_where_they_are_used(composed: dict[str, Any]) -> None:
    mounts = {name: service.get("volumes", []) for name, service in composed["services"].items()}
    lasting = f"{next(iter(composed['volumes']))}:/var/lib/modelmill"
    assert {name for name, mounted in mounts.items() if lasting in mounted} == {
        "web",
        "sftp",
        "scheduler",
        "controller",
    }


def test_the_secret_key_is_for_those_who_sign_or_read_secrets_alone(services: dict[str, Any]) -> None:
    given = {name: service.get("secrets", []) for name, service in services.items()}
    with_key = {name for name, secrets in given.items() if "modelmill_secret_key" in secrets}
    assert with_key == {"web", "scheduler", "controller"}
    assert not given["sftp"]


def test_the_kneron_workers_stand_on_the_vendors_image_and_the_rest_does_not(tmp_path: Path) -> None:
    composed = compose(tmp_path, "compose.yaml", "compose.kneron.yaml")["services"]
    assert {name for name, service in composed.items() if "kneron" in service["image"]} == set(STAGES)
    told = {
        name: service["environment"].get("MODELMILL_TOOLCHAINS", "")
        for name, service in composed.items()
        if name in OURS
    }
    assert {name for name, toolchains in told.items() if "kneron" in toolchains} == {"web", *STAGES}
    # What the override does not name stays as it was.
    assert composed["bie"]["environment"]["MODELMILL_SHUTDOWN_GRACE_S"] == "600"
    assert composed["bie"]["cap_drop"] == ["ALL"]


def test_training_is_a_worker_of_its_own_that_may_do_as_little_as_the_others_and_reaches_the_cluster(
    tmp_path: Path,
) -> None:
    composed = compose(tmp_path, "compose.yaml", "compose.train.yaml")["services"]
    assert set(composed) == {*OURS, "redis", "s3", "training"}
    training = composed["training"]
    assert training["extends"] == {"file": "compose.yaml", "service": "scheduler"}
    assert set(training) == {"extends", "image", "command", "environment", "networks", "healthcheck"}
    assert training["command"][:5] == ["dramatiq", "actors", "--queues", "training", "training_results"]
    assert training["networks"] == ["front", "back"]
    told = {name for name, service in composed.items() if "MODELMILL_RAY_ADDRESS" in service.get("environment", {})}
    assert told == {"web", "scheduler", "pulse", "training"}


def test_every_variable_has_a_default_and_stands_in_the_example() -> None:
    text = "".join(path.read_text() for path in COMPOSE.glob("compose*.yaml"))
    used = dict(re.findall(r"\$\{([A-Z0-9_]+):-([^}]*)\}", text))
    assert len(re.findall(r"\$\{", text)) == len(re.findall(r"\$\{[A-Z0-9_]+:-", text))
    example = (COMPOSE / ".env.example").read_text()
    assert dict(re.findall(r"^#([A-Z0-9_]+)=(.*)$", example, re.MULTILINE)) == used


def test_secrets_that_exist_are_kept(tmp_path: Path) -> None:
    def made() -> dict[str, str]:
        subprocess.run([DEPLOY / "make-secrets", tmp_path], check=True, capture_output=True)
        return {path.name: path.read_text() for path in tmp_path.iterdir()}

    first = made()
    assert made() == first
    (tmp_path / "modelmill_redis_url").unlink()
    assert made() == first
    assert tmp_path.stat().st_mode & 0o777 == 0o700
