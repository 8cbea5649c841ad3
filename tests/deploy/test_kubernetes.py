"""The Kubernetes files: valid for the API server, rendered by kustomize, hardened, and scaled by what is true."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from app.bootstrap.container import Container
from tests.harness.deployment_files import DEPLOY, KUBERNETES, STAGES, env_of, kubernetes_sources, named, pods, rendered

VERSION = "1.37"
OVERLAYS = ("base", "keda", "kneron", "training")
OURS = ("web", "sftp", "scheduler", "controller", "pulse", *STAGES)
TO_THE_DATABASE = {"web", "sftp", "scheduler", "controller"}


@pytest.fixture(params=OVERLAYS)
def resources(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return rendered(request.param)


def assert_valid(resources: list[dict[str, Any]]) -> None:
    schema = json.loads((Path(__file__).parent / "keda.schema.json").read_text())
    for resource in resources:
        if resource["apiVersion"].startswith("keda.sh/"):
            jsonschema.validate(resource, schema)
        else:
            kubernetes_validate.validate(resource, VERSION, strict=True)


def test_every_resource_is_valid_as_it_stands_in_its_file() -> None:
    assert_valid(kubernetes_sources())


def test_a_misspelt_field_is_found() -> None:
    resources = kubernetes_sources()
    named(resources, "Deployment", "bie")["spec"]["template"]["spec"]["terminationGracePeriod"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        assert_valid(resources)
    scaled = named(kubernetes_sources(), "ScaledObject", "bie")
    scaled["spec"]["triggers"][0]["metadata"]["listlength"] = "1"
    with pytest.raises(jsonschema.ValidationError):
        assert_valid([scaled])


def test_what_kustomize_makes_is_valid_and_in_one_namespace(resources: list[dict[str, Any]]) -> None:
    assert_valid(resources)
    assert {it["metadata"].get("namespace") for it in resources if it["kind"] != "Namespace"} == {"modelmill"}


def test_it_is_the_minimum_deployment() -> None:
    assert set(pods(kubernetes_sources())) == {*OURS, "redis", "postgres", "s3"}


def test_every_pod_may_do_as_little_as_possible() -> None:
    for name, pod in pods(kubernetes_sources()).items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert set(container["resources"]) == {"requests", "limits"}, name
        if name not in ("pulse", "controller"):
            assert "livenessProbe" in container or "readinessProbe" in container, name


def test_training_is_one_more_pod_like_the_scheduler_that_alone_reaches_ray() -> None:
    own = [*yaml.safe_load_all((KUBERNETES / "training" / "training.yaml").read_text())]
    assert_valid(own)
    training, scheduler = pods(own)["training"], pods(kubernetes_sources())["scheduler"]
    assert keys_of(scheduler) - keys_of(training) == {"modelmill_secret_key"}, "it signs receipts, and training none"
    for pod in (training, scheduler):
        for volume in pod["volumes"]:
            volume.get("secret", {}).pop("items", None)
    for name in ("securityContext", "automountServiceAccountToken", "volumes"):
        assert training[name] == scheduler[name], name
    (container,), (others,) = training["containers"], scheduler["containers"]
    for name in ("securityContext", "resources", "volumeMounts", "env", "envFrom"):
        assert container[name] == others[name], name
    assert container["command"][3:5] == ["training", "training_results"]
    to_ray = named(own, "NetworkPolicy", "training")["spec"]["egress"]
    assert {"port": 8265, "protocol": "TCP"} in [port for rule in to_ray for port in rule["ports"]]


def test_every_process_of_ours_has_the_name_of_its_pod_and_is_process_1() -> None:
    for name, pod in pods(kubernetes_sources()).items():
        if name not in OURS:
            continue
        (container,) = pod["containers"]
        names = [item for item in container["env"] if item["name"] == "MODELMILL_NODE_NAME"]
        assert [item["valueFrom"]["fieldRef"]["fieldPath"] for item in names] == ["metadata.name"], name
        assert container["command"][0] in {"dramatiq", "periodiq", "uvicorn", "modelmill"}, name
        assert not pod.get("shareProcessNamespace"), name


def test_the_kneron_overlay_puts_the_workers_on_the_vendors_image() -> None:
    images = {name: pod["containers"][0]["image"] for name, pod in pods(rendered("kneron")).items()}
    assert {name for name, image in images.items() if "kneron" in image} == set(STAGES)


def test_with_keda_a_stage_that_reaches_its_time_limit_still_ends_before_its_pod() -> None:
    pod = pods(rendered("keda"))["bie"]
    env = {name: int(value) for name, value in env_of(pod).items() if value.isdigit()}
    assert env["MODELMILL_BIE_TIME_S"] <= env["MODELMILL_SHUTDOWN_GRACE_S"] <= pod["terminationGracePeriodSeconds"] - 10


def test_what_keda_counts_is_the_waiting_and_the_running_jobs(container: Container) -> None:
    """The list forgets a job that a worker has taken: scaled by that, a busy worker would be taken for idle."""
    trigger = named(kubernetes_sources(), "ScaledObject", "bie")["spec"]["triggers"][0]["metadata"]
    broker = container.broker
    for job in ("running", "waiting"):
        broker.send("bie", "run_bie", message_id=job, job_id=job)
    assert len(broker.do_fetch("bie", 1)) == 1
    assert broker.client.connection_pool.connection_kwargs["db"] == int(trigger["databaseIndex"])
    assert broker.client.type(trigger["listName"]) == b"hash"  # its number of fields is what KEDA asks for then
    assert broker.client.hlen(trigger["listName"]) == 2
    broker.do_ack("bie", "running")
    assert broker.client.hlen(trigger["listName"]) == 1


def test_the_secret_that_the_guide_makes_has_every_key_that_is_asked_for(tmp_path: Path) -> None:
    subprocess.run([DEPLOY / "make-secrets", tmp_path], check=True, capture_output=True)
    made = {path.name for path in tmp_path.iterdir()}
    resources = kubernetes_sources()
    volumes = [volume for pod in pods(resources).values() for volume in pod["volumes"] if "secret" in volume]
    keys = {item["key"] for volume in volumes for item in volume["secret"].get("items", [])}
    keys |= {item["key"] for item in named(resources, "TriggerAuthentication", "redis")["spec"]["secretTargetRef"]}
    assert keys == made
    assert {volume["secret"]["secretName"] for volume in volumes} == {"modelmill-secrets"}


def keys_of(pod: dict[str, Any]) -> set[str]:
    return {item["key"] for volume in pod["volumes"] if "secret" in volume for item in volume["secret"]["items"]}


def ways_to(component: str) -> set[str]:
    """The components that a policy lets reach this one."""
    policies = [it["spec"] for it in kubernetes_sources() if it["kind"] == "NetworkPolicy"]
    target = {"app.kubernetes.io/component": component}
    named_values: set[str] = set()
    for spec in policies:
        reached = [
            to.get("podSelector", {}).get("matchLabels") for rule in spec.get("egress", []) for to in rule.get("to", [])
        ]
        if target in reached:
            (rule,) = spec["podSelector"]["matchExpressions"]
            named_values |= set(rule["values"])
    return named_values


def test_only_those_that_need_the_database_are_told_of_it_and_reach_it() -> None:
    pod_specs = pods(kubernetes_sources())
    assert {name for name, pod in pod_specs.items() if "modelmill_database_url" in keys_of(pod)} == TO_THE_DATABASE
    assert ways_to("postgres") == TO_THE_DATABASE
    assert ways_to("redis") == set(OURS) - {"sftp"}


def test_the_secret_key_is_for_those_who_sign_or_read_secrets_in_the_database_and_for_nobody_else() -> None:
    pod_specs = pods(kubernetes_sources())
    pod_specs |= pods([*yaml.safe_load_all((KUBERNETES / "operator" / "operator.yaml").read_text())])
    with_key = {name for name, pod in pod_specs.items() if "modelmill_secret_key" in keys_of(pod)}
    assert with_key == {"web", "scheduler", "controller", "operator"}


def test_the_homes_are_one_volume_for_all_who_use_them_and_where_the_settings_say() -> None:
    resources = kubernetes_sources()
    claims = {it["metadata"]["name"] for it in resources if it["kind"] == "PersistentVolumeClaim"}
    mounts = {}
    for name, pod in pods(resources).items():
        lasting = {
            v["name"]: v["persistentVolumeClaim"]["claimName"]
            for v in pod["volumes"]
            if len(v) == 2 and "persistentVolumeClaim" in v
        }
        assert set(lasting.values()) <= claims, name
        mounted = {it["name"]: it["mountPath"] for it in pod["containers"][0]["volumeMounts"]}
        mounts[name] = {mounted[volume] for volume, claim in lasting.items() if claim == "homes"}
    told = dict(line.split("=", 1) for line in (KUBERNETES / "base" / "settings.env").read_text().splitlines())
    homes = {told["MODELMILL_HOMES_ROOT"]}
    assert mounts == {name: homes if name in TO_THE_DATABASE else set() for name in mounts}


def test_the_host_key_of_the_sftp_server_outlives_its_pod_and_stays_its_owners() -> None:
    server = pods(kubernetes_sources())["sftp"]
    (claim,) = [volume for volume in server["volumes"] if volume["name"] == "data"]
    assert claim["persistentVolumeClaim"] == {"claimName": "sftp"}
    assert server["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
