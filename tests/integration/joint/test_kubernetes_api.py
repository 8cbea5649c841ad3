"""The Kubernetes-shaped API over HTTP, with the controllers at work behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from openapi_spec_validator import OpenAPIV2SpecValidator

from app.joint_inference.documents import parse_document
from app.kit.web.idempotency import HEADER, REPLAYED
from tests.harness.joint.deployment import JointDeployment
from tests.harness.joint.resources import SEDNA
from tests.harness.kubernetes import (
    APPLY,
    EVERYWHERE,
    GROUP,
    JSON_PATCH,
    MERGE,
    changes,
    further_web,
    path,
    put,
    refusal,
    sample,
    without_resources,
)
from tests.harness.until import PATIENCE_S, until

SEDNA_VERSION = "sedna.io/v1alpha1"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


@pytest.fixture
def client(joint: JointDeployment) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=joint.deployment.url, timeout=PATIENCE_S, trust_env=False) as made:
        without_resources(made)
        yield made


# --- discovery ---


def test_the_groups_versions_and_resources_are_found(client: httpx.Client) -> None:
    assert client.get("/api").json()["versions"] == ["v1"]
    groups = client.get("/apis").json()["groups"]
    assert [group["preferredVersion"]["groupVersion"] for group in groups] == ["neptune.io/v1alpha1", SEDNA_VERSION]
    assert client.get("/apis/neptune.io").json()["kind"] == "APIGroup"
    assert client.get("/apis/sedna.io").json()["name"] == "sedna.io"
    resources = {resource["name"]: resource for resource in client.get(GROUP).json()["resources"]}
    assert set(resources) == {"jointinferenceservices", "jointinferenceservices/status"}
    assert resources["jointinferenceservices"]["shortNames"] == ["jointinferenceservice", "jis"]
    assert resources["jointinferenceservices"]["namespaced"] is True
    of_sedna = client.get(f"/apis/{SEDNA_VERSION}").json()
    assert (of_sedna["groupVersion"], of_sedna["resources"][0]["shortNames"]) == (SEDNA_VERSION, [])
    model = of_sedna["resources"][-1]
    assert (model["name"], model["kind"], model["namespaced"]) == ("models", "Model", False)
    assert model["verbs"] == ["create", "get", "list", "patch", "update"]
    assert client.get("/version").json()["gitVersion"].startswith("v1.")


def test_the_schema_is_found_where_the_index_says(client: httpx.Client) -> None:
    index = client.get("/openapi/v3").json()["paths"]
    whole = client.get(index["apis/neptune.io/v1alpha1"]["serverRelativeURL"]).json()
    spec = whole["components"]["schemas"]["io.neptune.v1alpha1.JointInferenceService"]["properties"]["spec"]
    assert spec["required"] == ["edgeWorker", "cloudWorker"]
    creates = whole["paths"][f"{GROUP}/namespaces/{{namespace}}/jointinferenceservices"]["post"]
    assert [each["name"] for each in creates["parameters"] if each["in"] == "header"] == [HEADER]
    whole = client.get(index[f"apis/{SEDNA_VERSION}"]["serverRelativeURL"]).json()
    edge = whole["components"]["schemas"]["io.sedna.v1alpha1.JointInferenceService"]["properties"]["spec"]["properties"]
    assert {"hardExampleMining", "template"} < set(edge["edgeWorker"]["properties"])


@pytest.mark.parametrize("accept", ["*/*", "application/json, */*", "application/json;q=0.5"])
def test_the_schema_is_also_found_in_version_2_as_json(client: httpx.Client, accept: str) -> None:
    answer = client.get("/openapi/v2", headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    OpenAPIV2SpecValidator(answer.json()).validate()
    spec = answer.json()["definitions"]["io.neptune.v1alpha1.JointInferenceService"]["properties"]["spec"]
    assert spec["required"] == ["edgeWorker", "cloudWorker"]


def test_the_binary_form_that_kubectl_requests_is_not_found(client: httpx.Client) -> None:
    binary = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    refusal(client.get("/openapi/v2", headers={"accept": binary}), 404, "NotFound")


def test_an_unknown_group_is_not_found(client: httpx.Client) -> None:
    refusal(client.get("/apis/apps/v1/deployments"), 404, "NotFound")


def test_namespaces_are_those_that_have_services_and_default(client: httpx.Client) -> None:
    put(client, sample("one"), "shop")
    names = [item["metadata"]["name"] for item in client.get("/api/v1/namespaces").json()["items"]]
    assert names == ["default", "shop"]
    assert client.get("/api/v1/namespaces/shop").json()["status"]["phase"] == "Active"
    refusal(client.get("/api/v1/namespaces/nowhere"), 404, "NotFound")


# --- reading ---


def test_what_was_created_is_read_back_and_the_controllers_look_at_it(client: httpx.Client) -> None:
    made = put(client, sample())
    assert made["spec"] == sample()["spec"]
    assert made["metadata"]["generation"] == 1
    resource = until(lambda: client.get(path(sample()["metadata"]["name"])).json(), _has_failed)
    assert resource["status"]["conditions"][-1]["reason"] in ("NodeNotFound", "ModelNotFound")
    assert resource["metadata"]["uid"] == made["metadata"]["uid"]
    assert resource == client.get(f"{path('helmet-detection-demo')}/status").json()


def test_lists_are_of_a_namespace_or_of_all(client: httpx.Client) -> None:
    put(client, sample("b"))
    put(client, sample("a"), "shop")
    whole = client.get(EVERYWHERE).json()
    assert (whole["kind"], whole["apiVersion"]) == ("JointInferenceServiceList", "neptune.io/v1alpha1")
    assert [item["metadata"]["name"] for item in whole["items"]] == ["b", "a"]
    assert int(whole["metadata"]["resourceVersion"]) > 0
    assert [item["metadata"]["name"] for item in client.get(path(namespace="shop")).json()["items"]] == ["a"]
    assert client.get(path(namespace="nowhere")).json()["items"] == []


def test_selectors_choose(client: httpx.Client) -> None:
    put(client, sample("one", labels={"app": "web"}))
    put(client, sample("two", labels={"app": "db"}))
    for query, names in (
        ({"labelSelector": "app=web"}, ["one"]),
        ({"fieldSelector": "metadata.name=two"}, ["two"]),
        ({"labelSelector": "app=web", "fieldSelector": "metadata.name=two"}, []),
    ):
        assert [item["metadata"]["name"] for item in client.get(path(), params=query).json()["items"]] == names
    refusal(client.get(path(), params={"fieldSelector": "spec.x=1"}), 400, "BadRequest")


def test_a_long_list_comes_in_pieces(client: httpx.Client) -> None:
    names = [f"s{number}" for number in range(5)]
    for name in names:
        put(client, sample(name))
    pieces, token, left = [], "", []
    while True:
        page = client.get(path(), params={"limit": "2", "continue": token}).json()
        pieces += [item["metadata"]["name"] for item in page["items"]]
        left.append(page["metadata"].get("remainingItemCount"))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert (pieces, left) == (names, [3, 1, None])
    refusal(client.get(path(), params={"continue": "nonsense"}), 400, "BadRequest")


def test_a_table_has_the_crds_columns(client: httpx.Client) -> None:
    put(client, sample("one"))
    for url in (EVERYWHERE, path(), path("one")):
        table = client.get(url, headers=TABLE).json()
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert [column["name"] for column in table["columnDefinitions"]] == [
            "Name",
            "status",
            "active",
            "failed",
            "Age",
            "Reason",
        ]
        assert [row["cells"][0] for row in table["rows"]] == ["one"]
        assert table["rows"][0]["object"]["metadata"]["namespace"] == "default"


def test_the_events_of_a_service_are_found(client: httpx.Client) -> None:
    put(client, sample("one"))
    query = {"fieldSelector": "involvedObject.name=one,involvedObject.namespace=default"}
    items = until(
        lambda: client.get("/api/v1/namespaces/default/events", params=query).json()["items"],
        lambda seen: len(seen) > 1,
    )
    assert [items[0]["reason"], items[0]["type"], items[-1]["type"]] == ["Accepted", "Normal", "Warning"]
    query = {"fieldSelector": "involvedObject.name=nobody"}
    assert client.get("/api/v1/namespaces/default/events", params=query).json()["items"] == []


def test_a_change_is_an_event_like_any_other(client: httpx.Client) -> None:
    made = _settled(client, "one")
    made["spec"]["edgeWorker"]["nodeName"] = "edge7"
    assert client.put(path("one"), json=made).status_code == 200
    query = {"fieldSelector": "involvedObject.name=one,involvedObject.namespace=default"}
    items = client.get("/api/v1/namespaces/default/events", params=query).json()["items"]
    assert [item["type"] for item in items if item["reason"] == "SpecChanged"] == ["Normal"]


# --- writing ---


def test_what_is_there_already_is_not_created(client: httpx.Client) -> None:
    put(client, sample("one"))
    refused = refusal(client.post(path(), json=sample("one")), 409, "AlreadyExists")
    assert refused["message"] == 'jointinferenceservices.neptune.io "one" already exists'


def test_what_is_sent_twice_with_one_key_gets_its_first_answer_again(client: httpx.Client) -> None:
    once, sent = {HEADER: str(uuid4())}, sample("twice")
    sent["spec"] |= {"first": 1, "second": 2}
    first, again = (client.post(path(), json=sent, headers=once) for _ in range(2))
    assert first.status_code == 201, first.text
    assert (again.status_code, again.json(), again.headers[REPLAYED]) == (201, first.json(), "true")
    assert again.headers["warning"] == first.headers["warning"] and "second" in again.headers["warning"]
    assert len(client.get(path()).json()["items"]) == 1
    refusal(client.post(path(), json=sample("another"), headers=once), 409, "Conflict")
    refusal(client.post(path(), json=sent, headers={HEADER: "x" * 201}), 422, "Invalid")


def test_a_put_of_a_stale_version_is_a_conflict(client: httpx.Client) -> None:
    made = _settled(client, "one")
    made["spec"]["edgeWorker"]["nodeName"] = "edge7"
    changed = client.put(path("one"), json=made).json()
    assert (changed["metadata"]["generation"], changed["spec"]["edgeWorker"]["nodeName"]) == (2, "edge7")
    made["spec"]["edgeWorker"]["nodeName"] = "edge8"
    refusal(client.put(path("one"), json=made), 409, "Conflict")
    del made["metadata"]["resourceVersion"]
    assert client.put(path("one"), json=made).json()["spec"]["edgeWorker"]["nodeName"] == "edge8"
    made["metadata"]["uid"] = "another"
    refusal(client.put(path("one"), json=made), 409, "Conflict")


def test_a_merge_patch_changes_what_it_names(client: httpx.Client) -> None:
    made = put(client, sample("one", labels={"a": "1", "b": "2"}))
    patch: dict[str, Any] = {
        "metadata": {"labels": {"a": None}},
        "spec": {"cloudWorker": {"model": {"name": "bigger"}}},
    }
    answered = client.patch(path("one"), json=patch, headers=MERGE).json()
    assert answered["metadata"]["labels"] == {"b": "2"}
    assert answered["spec"]["cloudWorker"] == {**made["spec"]["cloudWorker"], "model": {"name": "bigger"}}
    assert answered["spec"]["edgeWorker"] == made["spec"]["edgeWorker"]
    stale = {"metadata": {"resourceVersion": "1"}, "spec": {"edgeWorker": {"nodeName": "edge7"}}}
    refusal(client.patch(path("one"), json=stale, headers=MERGE), 409, "Conflict")
    bad = {"spec": {"edgeWorker": {"nodeName": None}}}
    answered = refusal(client.patch(path("one"), json=bad, headers=MERGE), 422, "Invalid")
    assert answered["details"]["causes"][0]["field"] == "spec.edgeWorker.nodeName"


@pytest.mark.parametrize("kind", ["application/strategic-merge-patch+json", "application/json"])
def test_other_patches_are_not_taken(client: httpx.Client, kind: str) -> None:
    put(client, sample("one"))
    answer = client.patch(path("one"), content="{}", headers={"Content-Type": kind})
    assert "application/merge-patch+json" in refusal(answer, 415, "UnsupportedMediaType")["message"]


@pytest.mark.parametrize("patch", [[], "x", None, {"metadata": None}, {"metadata": "x"}, {"kind": "Pod"}])
def test_a_merge_patch_that_makes_something_else_of_it_is_refused(client: httpx.Client, patch: Any) -> None:
    put(client, sample("one"))
    refusal(client.patch(path("one"), json=patch, headers=MERGE), 400, "BadRequest")


def test_an_apply_patch_creates_and_then_changes(client: httpx.Client) -> None:
    resource = sample("one", labels={"a": "1"})
    assert client.patch(path("one"), json=resource, headers=APPLY).status_code == 201
    resource["metadata"]["labels"] = {"b": "2"}
    del resource["spec"]["edgeWorker"]["workerSpec"]["parameters"]
    answered = client.patch(path("one"), json=resource, headers=APPLY)
    assert answered.status_code == 200
    assert answered.json()["metadata"]["labels"] == {"b": "2"}, "what one manager owned and names no more is gone"
    assert "parameters" not in answered.json()["spec"]["edgeWorker"]["workerSpec"]
    part = {
        **{key: resource[key] for key in ("apiVersion", "kind")},
        "metadata": {"name": "one", "annotations": {"n": "x"}},
    }
    answered = client.patch(path("one"), json=part, headers=APPLY, params={"fieldManager": "another"})
    assert answered.json()["metadata"]["annotations"] == {"n": "x"}
    assert answered.json()["spec"] == resource["spec"]
    assert [one["manager"] for one in answered.json()["metadata"]["managedFields"]] == ["python-httpx", "another"]
    message = refusal(client.patch(path("one"), json=part, headers=APPLY), 422, "Invalid")["message"]
    assert "spec.edgeWorker: Required value" in message, "it named all of it before"


def test_anothers_field_is_a_conflict_unless_it_is_forced(client: httpx.Client) -> None:
    alice, bob = {"fieldManager": "alice"}, {"fieldManager": "bob"}
    client.patch(path("one"), json=sample("one"), headers=APPLY, params=alice)
    other = sample("one")
    other["spec"]["edgeWorker"]["hardExampleAlgorithm"]["name"] = "Threshold"
    for params in (bob, {**bob, "dryRun": "All"}):
        conflict = refusal(client.patch(path("one"), json=other, headers=APPLY, params=params), 409, "Conflict")
        (cause,) = conflict["details"]["causes"]
        assert cause["reason"] == "FieldManagerConflict" and 'conflict with "alice"' in cause["message"]
        assert cause["field"] == ".spec.edgeWorker.hardExampleAlgorithm.name"
    assert client.get(path("one")).json()["spec"] == sample()["spec"]
    answer = client.patch(path("one"), json=other, headers=APPLY, params={**bob, "force": "true"})
    assert answer.json()["spec"] == other["spec"]
    refusal(client.patch(path("one"), json=sample("one"), headers=APPLY, params=alice), 409, "Conflict")


def test_a_json_patch_changes_what_it_names(client: httpx.Client) -> None:
    put(client, sample("one", labels={"a": "1"}))
    patch = [
        {"op": "test", "path": "/spec/edgeWorker/nodeName", "value": "edge0"},
        {"op": "replace", "path": "/spec/edgeWorker/nodeName", "value": "edge7"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]
    answered = client.patch(path("one"), json=patch, headers=JSON_PATCH).json()
    assert answered["spec"]["edgeWorker"]["nodeName"] == "edge7"
    assert "labels" not in answered["metadata"]
    stale = refusal(client.patch(path("one"), json=patch, headers=JSON_PATCH), 422, "Invalid")
    assert "does not fit" in stale["message"]
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}
    refusal(client.patch(path("one"), json=[version], headers=JSON_PATCH), 409, "Conflict")


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        ({"op": "remove", "path": "/spec"}, 400),
        ([{"op": "fold", "path": "/spec"}], 400),
        (["remove"], 400),
        ([{"op": "remove"}], 400),
        ([{"op": "remove", "path": "/spec/none"}], 422),
        ([{"op": "remove", "path": "/spec/edgeWorker"}], 422),
        ([{"op": "replace", "path": "", "value": 7}], 400),
        ([{"op": "add", "path": "/metadata/managedFields", "value": [{"manager": "x"}]}], 422),
        ([{"op": "copy", "from": "/spec", "path": f"/spec/a{n}"} for n in range(40)], 422),
        ([{"op": "add", "path": "/spec/a", "value": 1}] * 1001, 400),
    ],
)
def test_a_json_patch_that_is_none_or_does_not_fit_changes_nothing(
    client: httpx.Client, patch: Any, status: int
) -> None:
    made = put(client, sample("one"))
    answer = client.patch(path("one"), json=patch, headers=JSON_PATCH)
    refusal(answer, status, "BadRequest" if status == 400 else "Invalid")
    assert client.get(path("one")).json()["spec"] == made["spec"]


def test_the_status_is_written_apart(client: httpx.Client, joint: JointDeployment) -> None:
    made = _settled(client, "one")
    with joint.controllers_asleep():
        status = {"active": 1, "metrics": [{"key": "inferenceNumber", "value": "1000"}]}
        answered = client.put(f"{path('one')}/status", json={**made, "spec": {}, "status": status})
        assert (answered.json()["status"], answered.json()["spec"]) == (status, made["spec"])
        refusal(client.put(f"{path('one')}/status", json={**made, "status": status}), 409, "Conflict")
        answered = client.patch(f"{path('one')}/status", json={"status": {"failed": 1}}, headers=MERGE)
        assert answered.json()["status"]["failed"] == 1
        mine = {**{key: made[key] for key in ("apiVersion", "kind")}, "metadata": {"name": "one"}}
        taken = {**mine, "status": {"failed": 2}}
        cause = refusal(client.patch(f"{path('one')}/status", json=taken, headers=APPLY), 409, "Conflict")["details"]
        assert cause["causes"][0]["field"] == ".status.failed" and "modelmill" in cause["causes"][0]["message"]
        forced = client.patch(f"{path('one')}/status", json=taken, headers=APPLY, params={"force": "true"})
        assert (forced.json()["status"]["failed"], forced.json()["status"]["active"]) == (2, 1)
        answer = client.patch(f"{path('one')}/status", json={"status": {"failed": "1"}}, headers=MERGE)
        assert refusal(answer, 422, "Invalid")["details"]["causes"][0]["field"] == "status.failed"
        before = client.get(path("one")).json()["status"]
        client.patch(path("one"), json={"status": {"active": 99}}, headers=MERGE)
        assert client.get(path("one")).json()["status"].get("active") == before.get("active") != 99


def test_what_was_deleted_is_gone_once_its_workers_have_ended(client: httpx.Client) -> None:
    made = put(client, sample("one"))
    wrong = {"preconditions": {"uid": "another"}}
    refusal(client.request("DELETE", path("one"), json=wrong), 409, "Conflict")
    right = {"preconditions": {"uid": made["metadata"]["uid"]}}
    assert "deletionTimestamp" in client.request("DELETE", path("one"), json=right).json()["metadata"]
    until(lambda: client.get(path("one")).status_code, lambda status: status == 404)
    refusal(client.delete(path("one")), 404, "NotFound")


def test_a_dry_run_changes_nothing(client: httpx.Client) -> None:
    dry = {"dryRun": "All"}
    assert client.post(path(), json=sample("one"), params=dry).status_code == 201
    assert client.get(path()).json()["items"] == []
    made = _settled(client, "one")
    refusal(client.post(path(), json=sample("one"), params=dry), 409, "AlreadyExists")
    patch = {"spec": {"edgeWorker": {"nodeName": "edge7"}}}
    changed = client.patch(path("one"), json=patch, headers=MERGE, params=dry).json()
    assert changed["spec"]["edgeWorker"]["nodeName"] == "edge7"
    applied = client.patch(path("one"), json={**made, **patch}, headers=APPLY, params={**dry, "force": "true"})
    assert applied.status_code == 200
    assert client.put(
        path("one"), json={**made, "metadata": {"name": "one", "labels": {"a": "b"}}}, params=dry
    ).is_success
    assert client.delete(path("one"), params=dry).is_success
    client.put(f"{path('one')}/status", json={**made, "status": {"active": 9}}, params=dry)
    assert client.get(path("one")).json() == made


def test_unknown_fields_are_left_out_warned_of_or_refused_as_asked(client: httpx.Client) -> None:
    resource = sample("one")
    resource["spec"]["edgeWorker"]["replicas"] = 3
    refused = refusal(client.post(path(), json=resource, params={"fieldValidation": "Strict"}), 400, "BadRequest")
    assert 'unknown field "spec.edgeWorker.replicas"' in refused["message"]
    answer = client.post(path(), json=resource, params={"fieldValidation": "Warn"})
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.edgeWorker.replicas\\""'
    assert "replicas" not in answer.json()["spec"]["edgeWorker"]
    answer = client.put(path("one"), json=resource, params={"fieldValidation": "Ignore"})
    assert answer.is_success
    assert "warning" not in answer.headers
    resource["spec"] = {**sample()["spec"], 'a\n"b\\': 1}
    answer = client.put(path("one"), json=resource)
    assert answer.headers["warning"].startswith('299 - "unknown field \\"spec[')


# --- what is wrong ---


def test_a_missing_field_is_invalid_and_nothing_is_created(client: httpx.Client) -> None:
    resource = sample("one")
    del resource["spec"]["edgeWorker"]["workerSpec"]["parameters"][0]["value"]
    refused = refusal(client.post(path(), json=resource), 422, "Invalid")
    assert refused["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value",
            "field": "spec.edgeWorker.workerSpec.parameters[0].value",
        }
    ]
    assert refused["details"]["name"] == "one"
    assert client.get(path()).json()["items"] == []


@pytest.mark.parametrize(
    "change", [{"kind": "Pod"}, {"apiVersion": "neptune.io/v2"}, {"apiVersion": "sedna.io/v1alpha1"}, {"kind": None}]
)
def test_another_kind_is_a_bad_request(client: httpx.Client, change: dict[str, Any]) -> None:
    refusal(client.post(path(), json={**sample("one"), **change}), 400, "BadRequest")
    put(client, sample("one"))
    refusal(client.put(path("one"), json={**sample("one"), **change}), 400, "BadRequest")


def test_a_name_or_namespace_that_differs_from_the_path_is_a_bad_request(client: httpx.Client) -> None:
    put(client, sample("one"))
    for method in (client.put, client.patch):
        for resource in (sample("two"), sample("one", "shop")):
            headers = APPLY if method == client.patch else {}
            refusal(method(path("one"), json=resource, headers=headers), 400, "BadRequest")
    refusal(client.post(path(), json=sample("two", "shop")), 400, "BadRequest")


@pytest.mark.parametrize("body", [b"{", b"", b"[1]", b"\xff", b"[" * 100_000, b'"' + b"x" * 100])
def test_a_body_that_is_no_resource_is_a_bad_request(client: httpx.Client, body: bytes) -> None:
    put(client, sample("one"))
    refusal(client.post(path(), content=body), 400, "BadRequest")
    refusal(client.put(path("one"), content=body), 400, "BadRequest")
    refusal(client.put(f"{path('one')}/status", content=body), 400, "BadRequest")
    refusal(client.patch(path("one"), content=body, headers=MERGE), 400, "BadRequest")


def test_a_body_that_is_too_large_is_refused(client: httpx.Client) -> None:
    huge = json.dumps(sample("one", annotations={"a": "x" * (1 << 20)}))
    refusal(client.post(path(), content=huge), 413, "RequestEntityTooLarge")


def test_what_is_not_there_is_not_found(client: httpx.Client) -> None:
    body = sample("none")
    for answer in (
        client.get(path("none")),
        client.put(path("none"), json=body),
        client.delete(path("none")),
        client.patch(path("none"), json={}, headers=MERGE),
        client.get(f"{path('none')}/status"),
        client.put(f"{path('none')}/status", json=body),
        client.get(path("none", "nowhere")),
    ):
        refused = refusal(answer, 404, "NotFound")
        assert refused["message"] == 'jointinferenceservices.neptune.io "none" not found'


@pytest.mark.parametrize("name", ["a%00b", "%FF", "A", "x" * 5000])
def test_a_name_that_nothing_has_is_not_found(client: httpx.Client, name: str) -> None:
    for url in (f"{path()}/{name}", path("one", name)):
        assert client.get(url).status_code == 404
    put(client, sample("one"))
    answer = client.post(path(namespace=name), json=sample("two"))
    assert answer.status_code in (404, 405, 422), answer.text


# --- watching ---


def test_a_watch_tells_of_each_change(client: httpx.Client) -> None:
    version = client.get(path()).json()["metadata"]["resourceVersion"]
    with changes(client, path(), resourceVersion=version) as lines:
        made = put(client, sample("one"))
        first = next(lines)
        assert (first["type"], first["object"]["metadata"]["uid"]) == ("ADDED", made["metadata"]["uid"])
        client.patch(path("one"), json={"metadata": {"labels": {"app": "web"}}}, headers=MERGE)
        labelled = next(line for line in lines if "labels" in line["object"]["metadata"])
        assert labelled["type"] == "MODIFIED"
        client.delete(path("one"))
        last = next(line for line in lines if line["type"] != "MODIFIED")
        assert (last["type"], last["object"]["metadata"]["uid"]) == ("DELETED", made["metadata"]["uid"])


def test_a_watch_without_a_version_begins_with_what_is_there_and_ends_in_time(client: httpx.Client) -> None:
    _settled(client, "one")
    with changes(client, EVERYWHERE, timeoutSeconds="1") as lines:
        assert [(line["type"], line["object"]["metadata"]["name"]) for line in lines] == [("ADDED", "one")]


def test_a_watch_says_where_the_first_events_end_if_that_is_asked(client: httpx.Client) -> None:
    _settled(client, "one")
    query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    with changes(client, path(), timeoutSeconds="1", **query) as lines:
        assert next(lines)["type"] == "ADDED"
        bookmark = next(lines)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_of_tables_has_a_row_per_change(client: httpx.Client) -> None:
    _settled(client, "one")
    with client.stream("GET", path(), params={"watch": "1", "timeoutSeconds": "1"}, headers=TABLE) as answer:
        events = [json.loads(line) for line in answer.iter_lines()]
    assert [line["object"]["rows"][0]["cells"][0] for line in events] == ["one"]


def test_a_watch_of_a_version_that_never_was_is_told_to_read_anew(client: httpx.Client) -> None:
    refusal(client.get(path(), params={"watch": "true", "resourceVersion": "999999999"}), 410, "Expired")
    refusal(client.get(path(), params={"watch": "true", "resourceVersion": "new"}), 400, "BadRequest")


@pytest.mark.slow
def test_a_watch_ends_when_the_server_does(joint: JointDeployment) -> None:
    process, port = further_web(joint.deployment)
    with (
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, trust_env=False) as client,
        changes(client, path(), sendInitialEvents="true") as lines,
    ):
        until(lambda: next(lines)["type"], lambda kind: kind == "BOOKMARK")
        process.terminate()
        assert list(lines) == []
    assert process.wait(PATIENCE_S) is not None


def _has_failed(resource: dict[str, Any]) -> bool:
    return bool(resource["status"]["conditions"][-1]["type"] == "Failed")


def _settled(client: httpx.Client, name: str) -> dict[str, Any]:
    """Created, and as the controllers leave it, so that nothing but the test changes it."""
    put(client, sample(name))
    until(lambda: client.get(path(name)).json(), _has_failed)
    return dict(client.get(path(name)).json())


# --- Sedna's group ---


def _of_sedna(name: str = "") -> str:
    return path(name).replace("neptune.io", "sedna.io")


def test_a_service_is_the_same_object_in_both_groups(client: httpx.Client) -> None:
    resource = parse_document(SEDNA)
    made = client.post(_of_sedna(), json=resource, params={"fieldValidation": "Strict"})
    assert (made.status_code, made.json()["apiVersion"]) == (201, SEDNA_VERSION)
    told = " ".join(made.headers.get_list("Warning"))
    assert "template.spec.dnsPolicy has no effect here" in told and "containers[0].image" in told
    name = resource["metadata"]["name"]
    of_ours = client.get(path(name)).json()
    assert (of_ours["apiVersion"], of_ours["metadata"]["uid"]) == (
        "neptune.io/v1alpha1",
        made.json()["metadata"]["uid"],
    )
    assert of_ours["spec"]["edgeWorker"]["hardExampleAlgorithm"]["name"] == "IBT"
    (listed,) = client.get(f"/apis/{SEDNA_VERSION}/jointinferenceservices").json()["items"]
    assert listed["spec"]["edgeWorker"]["hardExampleMining"]["name"] == "IBT"
    assert listed["spec"]["cloudWorker"]["template"]["spec"]["nodeName"] == "cloud0"
    wrong = {**resource, "spec": {**resource["spec"], "replicas": 2}}
    refused = client.put(_of_sedna(name), json=wrong, params={"fieldValidation": "Strict"})
    assert 'unknown field "spec.replicas"' in refusal(refused, 400, "BadRequest")["message"]
    refusal(client.put(path(name), json=resource), 400, "BadRequest")
    missing = refusal(client.get(_of_sedna("nobody")), 404, "NotFound")
    assert missing["message"] == 'jointinferenceservices.sedna.io "nobody" not found'


def test_a_service_is_patched_and_applied_in_sednas_spelling(client: httpx.Client) -> None:
    resource = parse_document(SEDNA)
    name = resource["metadata"]["name"]
    applied = client.patch(_of_sedna(name), json=resource, headers=APPLY, params={"fieldManager": "a"})
    assert applied.status_code == 201
    patch = {"spec": {"edgeWorker": {"template": {"spec": {"nodeName": "edge7"}}}}}
    assert client.patch(_of_sedna(name), json=patch, headers=MERGE).json()["apiVersion"] == SEDNA_VERSION
    operations = [{"op": "replace", "path": "/spec/edgeWorker/hardExampleMining/name", "value": "Threshold"}]
    assert client.patch(_of_sedna(name), json=operations, headers=JSON_PATCH).status_code == 200
    edge = client.get(path(name)).json()["spec"]["edgeWorker"]
    assert (edge["nodeName"], edge["hardExampleAlgorithm"]["name"]) == ("edge7", "Threshold")
    again = client.patch(
        _of_sedna(name), json=resource, headers=APPLY, params={"fieldManager": "a", "force": "true", "dryRun": "All"}
    )
    assert again.json()["spec"]["edgeWorker"]["template"]["spec"]["nodeName"] == "edge0"
    assert any("dnsPolicy has no effect" in told for told in again.headers.get_list("Warning"))


def test_changes_are_watched_in_sednas_spelling(client: httpx.Client) -> None:
    with changes(client, f"/apis/{SEDNA_VERSION}/jointinferenceservices", resourceVersion="0") as lines:
        with httpx.Client(base_url=client.base_url, timeout=PATIENCE_S, trust_env=False) as other:
            put(other, sample())
        change = next(lines)
    assert (change["type"], change["object"]["apiVersion"]) == ("ADDED", SEDNA_VERSION)
