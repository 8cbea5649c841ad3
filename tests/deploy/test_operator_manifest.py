"""The operator's Kubernetes files: valid, as hardened as the other pods, and with no right that it does not use."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import yaml

from app.joint_inference.model.resource import GROUP, PLURAL
from tests.harness.deployment_files import KUBERNETES, kubernetes_sources, named, pods

VERSION = "1.37"
OPERATOR: list[dict[str, Any]] = list(yaml.safe_load_all((KUBERNETES / "operator" / "operator.yaml").read_text()))


def test_every_resource_is_valid() -> None:
    for resource in OPERATOR:
        kubernetes_validate.validate(resource, VERSION, strict=True)


def test_its_pod_may_do_as_little_as_the_scheduler() -> None:
    operator, scheduler = pods(OPERATOR)["operator"], pods(kubernetes_sources())["scheduler"]
    assert operator["securityContext"] == scheduler["securityContext"]
    assert operator["automountServiceAccountToken"] is False
    (container,), (other,) = operator["containers"], scheduler["containers"]
    assert container["securityContext"] == other["securityContext"]
    assert container["command"][:3] == ["modelmill", "joint", "operator"]
    assert set(container["resources"]) == {"requests", "limits"}


def test_there_is_one_operator_also_while_it_is_replaced() -> None:
    spec = named(OPERATOR, "Deployment", "operator")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")


def test_it_may_write_its_own_kind_only_and_read_no_secret() -> None:
    rules = named(OPERATOR, "ClusterRole", "modelmill-operator")["rules"]
    writing = {"create", "update", "patch", "delete", "deletecollection", "*"}
    changed = {
        (group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if writing & set(rule["verbs"])
    }
    assert changed == {(GROUP, PLURAL), (GROUP, f"{PLURAL}/status")}
    assert not {"secrets", "*"} & {resource for rule in rules for resource in rule["resources"]}


def test_its_token_is_where_kopf_looks_for_it() -> None:
    pod = pods(OPERATOR)["operator"]
    (mount,) = [it for it in pod["containers"][0]["volumeMounts"] if it["name"] == "token"]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    (volume,) = [it for it in pod["volumes"] if it["name"] == "token"]
    assert {next(iter(source)) for source in volume["projected"]["sources"]} == {
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    }
