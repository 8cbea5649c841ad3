"""What the Kubernetes-shaped API refuses: with which status and reason, in which words, and that nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.harness.kubernetes import APPLY, EVERYWHERE, JSON_PATCH, MERGE, path, refusal, sample
from tests.harness.users import Within, within
from tests.harness.valkey import Valkey
from tests.harness.video.web import settings_in

EVENTS = "/api/v1/namespaces/default/events"
ONE, STATUS = path("one"), f"{path('one')}/status"
STRICT = {"fieldValidation": "Strict"}
YAML = {"Content-Type": "application/yaml"}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Iterator[Within]:
    """With one service."""
    with within(settings_in(tmp_path_factory.mktemp("web"), shared_valkey)) as made:
        assert made.post(path(), json=sample("one", labels={"a": "1"})).status_code == 201
        yield made


def stored(web: Within) -> Any:
    return web.get(EVERYWHERE).json()["items"]


def check_refusal(web: Within, answer: httpx.Response, before: Any, status: int, words: str) -> None:
    reasons = {400: "BadRequest", 409: "Conflict", 415: "UnsupportedMediaType", 422: "Invalid"}
    assert words in refusal(answer, status, reasons[status])["message"]
    assert stored(web) == before


@pytest.mark.parametrize(
    ("url", "query", "words"),
    [
        (EVENTS, {}, "Name the service: fieldSelector=involvedObject.name="),
        (EVENTS, {"fieldSelector": "involvedObject.kind=Pod"}, "Name the service"),
        (EVENTS, {"fieldSelector": "involvedObject.name!=one"}, "no field selector of equalities"),
        (EVENTS, {"fieldSelector": "involvedObject.name"}, "no field selector of equalities"),
        (EVERYWHERE, {"fieldSelector": "metadata.name"}, "'metadata.name' is no field selector"),
        (EVERYWHERE, {"fieldSelector": "spec.name=a"}, "field label not supported: spec.name"),
        (EVERYWHERE, {"labelSelector": "a=b=c"}, "'a=b=c' is no label selector"),
        (EVERYWHERE, {"limit": "many"}, "limit is a number, not 'many'"),
        (EVERYWHERE, {"continue": "x"}, "continue is no token of this server"),
        (EVERYWHERE, {"includeObject": "All"}, "includeObject is one of"),
        (EVERYWHERE, {"watch": "true", "timeoutSeconds": "-1"}, "timeoutSeconds is a number, not '-1'"),
    ],
)
def test_a_query_that_cannot_be_is_named(web: Within, url: str, query: dict[str, str], words: str) -> None:
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"} if "includeObject" in query else {}
    answer = web.get(url, params=query, headers=headers)
    assert words in refusal(answer, 400, "BadRequest")["message"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"fieldValidation": "Loose"}, "fieldValidation is Strict, Warn or Ignore, not 'Loose'"),
        ({"dryRun": "Some"}, "dryRun is All or left out, not 'Some'"),
        ({"fieldManager": "x" * 129}, "at most 128 printable characters"),
        ({"fieldManager": "a\nb"}, "at most 128 printable characters"),
    ],
)
def test_an_option_of_a_change_that_cannot_be_is_named(web: Within, query: dict[str, str], words: str) -> None:
    before = stored(web)
    for answer in (
        web.post(path(), json=sample("two"), params=query),
        web.request("PUT", ONE, json=sample("one"), params=query),
        web.request("PATCH", ONE, json={}, headers=MERGE, params=query),
        web.request("PATCH", ONE, json=sample("one"), headers=APPLY, params=query),
        web.request("DELETE", ONE, params=query),
    ):
        check_refusal(web, answer, before, 400, words)


def of_kind(**change: Any) -> dict[str, Any]:
    return {**sample("one"), **change}


UNKNOWN = sample("one")
UNKNOWN["spec"]["edgeWorker"]["replicas"] = 3
STALE = sample("one", resourceVersion="1000000")
OTHER = sample("one", uid="another")
FLAT = {"manager": "x", "operation": "Update", "time": "2026-11-20T00:00:00Z", "fieldsV1": {"f:spec": 1}}


@pytest.mark.parametrize(
    ("body", "query", "status", "words"),
    [
        ("{", {}, 400, "The body is not JSON: line 1, column 2"),
        ("", {}, 400, "The body is no resource"),
        ([1], {}, 400, "The body is no resource"),
        (of_kind(kind="Pod"), {}, 400, "is wanted here, not neptune.io/v1alpha1, Pod"),
        (of_kind(apiVersion="neptune.io/v2"), {}, 400, "is wanted here, not neptune.io/v2, JointInferenceService"),
        (sample("one", "shop"), {}, 400, "The namespace of the provided object does not match"),
        (sample("two"), {}, 400, "The name of the object (two) does not match the name on the URL (one)"),
        (UNKNOWN, STRICT, 400, 'unknown field "spec.edgeWorker.replicas"'),
        (STALE, {}, 409, "has been changed meanwhile"),
        (STALE, {"dryRun": "All"}, 409, "has been changed meanwhile"),
        (OTHER, {}, 409, "Its uid is "),
    ],
)
def test_a_replacement_that_cannot_be_is_named(
    web: Within, body: Any, query: dict[str, str], status: int, words: str
) -> None:
    before, content = stored(web), body if isinstance(body, str) else json.dumps(body)
    check_refusal(web, web.request("PUT", ONE, content=content, params=query), before, status, words)


@pytest.mark.parametrize(
    ("kind", "patch", "status", "words"),
    [
        ({"Content-Type": "application/strategic-merge-patch+json"}, {}, 415, "kubectl patch --type=merge or json"),
        (MERGE, [], 400, "A merge patch is an object"),
        (MERGE, "x", 400, "A merge patch is an object"),
        (MERGE, None, 400, "A merge patch is an object"),
        (MERGE, {"kind": "Pod"}, 400, "is wanted here, not neptune.io/v1alpha1, Pod"),
        (MERGE, {"metadata": None}, 400, "The name of the object () does not match"),
        (MERGE, {"metadata": {"namespace": "shop"}}, 400, "The namespace of the provided object does not match"),
        (MERGE, {"metadata": {"uid": "another"}}, 409, "Its uid is "),
        (MERGE, {"metadata": {"resourceVersion": "1000000"}}, 409, "has been changed meanwhile"),
        (JSON_PATCH, {"op": "remove", "path": "/spec"}, 400, "A JSON patch is a list of operations"),
        (JSON_PATCH, ["remove"], 400, "A JSON patch is a list of operations"),
        (JSON_PATCH, [{"op": "fold", "path": "/spec"}], 400, "This is no JSON patch: Unknown operation 'fold'"),
        (JSON_PATCH, [{"op": "remove"}], 400, "This is no JSON patch: "),
        (JSON_PATCH, [{"op": "remove", "path": "/spec/none"}], 422, "The patch does not fit the service: "),
        (JSON_PATCH, [{"op": "replace", "path": "", "value": 7}], 400, "The body is no resource"),
        (JSON_PATCH, [{"op": "add", "path": "/a", "value": 1}] * 1001, 400, "A patch may have 1000 operations"),
        (
            JSON_PATCH,
            [{"op": "copy", "from": "/spec", "path": f"/spec/a{n}"} for n in range(40)],
            422,
            "The patch makes more than 1048576 bytes of it",
        ),
        (
            JSON_PATCH,
            [{"op": "add", "path": "/metadata/managedFields", "value": [{"manager": "x"}]}],
            422,
            "metadata.managedFields are to be a list of managers",
        ),
        (
            JSON_PATCH,
            [{"op": "add", "path": "/metadata/managedFields", "value": [FLAT]}],
            422,
            "fieldsV1 of metadata.managedFields are to be objects in objects",
        ),
        (APPLY, sample("two"), 400, "The name of the object (two) does not match"),
        (APPLY, of_kind(kind="Pod"), 400, "is wanted here, not neptune.io/v1alpha1, Pod"),
        (APPLY, STALE, 409, "has been changed meanwhile"),
        (APPLY, OTHER, 409, "Its uid is "),
        (APPLY, sample("one", labels={"a": "2"}), 409, ".metadata.labels.a"),
    ],
)
def test_a_patch_that_cannot_be_is_named(
    web: Within, kind: dict[str, str], patch: Any, status: int, words: str
) -> None:
    before = stored(web)
    check_refusal(web, web.request("PATCH", ONE, content=json.dumps(patch), headers=kind), before, status, words)


@pytest.mark.parametrize(
    ("method", "kind", "body", "status", "words"),
    [
        ("PATCH", JSON_PATCH, [], 415, "A status is patched by a merge patch or applied"),
        ("PATCH", MERGE, [], 400, "The body is no resource"),
        ("PUT", {}, [], 400, "The body is no resource"),
        ("PUT", {}, of_kind(kind="Pod"), 400, "is wanted here, not neptune.io/v1alpha1, Pod"),
        ("PUT", {}, sample("two"), 400, "The name of the object (two) does not match"),
        ("PUT", {}, OTHER, 409, "Its uid is "),
        ("PUT", {}, STALE, 409, "has been changed meanwhile"),
        ("PATCH", MERGE, {"metadata": {"uid": "another"}}, 409, "Its uid is "),
        ("PATCH", MERGE, {"status": {"failed": "1"}}, 422, "status.failed"),
    ],
)
def test_a_status_that_cannot_be_is_named(
    web: Within, method: str, kind: dict[str, str], body: Any, status: int, words: str
) -> None:
    before = stored(web)
    check_refusal(web, web.request(method, STATUS, content=json.dumps(body), headers=kind), before, status, words)


def test_an_applied_status_takes_no_field_over_unless_it_is_forced(web: Within) -> None:
    taken = of_kind(status={"failed": 7})
    assert web.request("PUT", STATUS, json=of_kind(status={"failed": 1})).is_success
    before = stored(web)
    refused = web.request("PATCH", STATUS, content=json.dumps(taken), headers=APPLY)
    check_refusal(web, refused, before, 409, ".status.failed")
    forced = web.request("PATCH", STATUS, content=json.dumps(taken), headers=APPLY, params={"force": "true"})
    assert forced.json()["status"]["failed"] == 7
