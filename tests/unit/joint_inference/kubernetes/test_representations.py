"""Tables, ages, selectors and errors as Kubernetes' tools expect them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from app.joint_inference.errors import InvalidResource, ServiceNotFound
from app.joint_inference.kubernetes.documents import document
from app.joint_inference.kubernetes.groups import GROUPS
from app.joint_inference.kubernetes.models import to_resource_name
from app.joint_inference.kubernetes.representations import human_duration, read_path, status_of, table_of
from app.joint_inference.kubernetes.requests import fields_of, number_of, selector_of, wants_table, write_options
from app.joint_inference.model.resource import Service
from app.kit.errors import BadRequest

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def service(**fields: Any) -> Service:
    return Service(
        **{
            "uid": "u",
            "owner": "me",
            "namespace": "shop",
            "name": "helmet",
            "generation": 1,
            "version": 7,
            "created_at": "2026-11-21T11:58:30.500Z",
            "spec": {},
            "status": {},
            **fields,
        }
    )


# --- tables ---


@given(st.text(alphabet="~/01a"))
def test_a_name_of_a_model_has_no_slash_and_is_read_back(name: str) -> None:
    written = to_resource_name(name)
    assert "/" not in written
    assert written.replace("~1", "/").replace("~0", "~") == name


def test_a_name_of_a_model_is_written_as_in_a_json_pointer() -> None:
    assert to_resource_name("alice/door~1") == "alice~1door~01"


def test_a_table_has_the_columns_of_the_crd_and_what_lies_at_their_paths() -> None:
    conditions = [{"type": "Pending"}, {"type": "Running", "reason": "SourceEnded"}]
    status = {"conditions": conditions, "active": 2, "failed": 0}
    table = table_of([service(status=status).to_resource()], {"resourceVersion": "7"}, now=NOW)
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "status",
        "active",
        "failed",
        "Age",
        "Reason",
    ]
    assert [column["type"] for column in table["columnDefinitions"]] == [
        "string",
        "string",
        "integer",
        "integer",
        "date",
        "string",
    ]
    assert table["rows"][0]["cells"] == ["helmet", "Running", 2, 0, "90s", "SourceEnded"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["rows"][0]["object"]["metadata"]["namespace"] == "shop"


def test_a_status_that_is_not_there_yet_is_an_empty_cell() -> None:
    assert table_of([service().to_resource()], {}, now=NOW)["rows"][0]["cells"][1:4] == [None, None, None]


@pytest.mark.parametrize(("include", "text"), [("None", None), ("Object", "JointInferenceService")])
def test_a_row_carries_what_was_asked_for(include: str, text: str | None) -> None:
    row = table_of([service().to_resource()], {}, now=NOW, include=include)["rows"][0]
    assert row.get("object", {}).get("kind") == text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".a[-1].b", 2),
        (".a[0].b", 1),
        (".a[2].b", None),
        (".a[-3]", None),
        (".a.b", None),
        (".c[0]", None),
        (".d", "x"),
    ],
)
def test_a_path_finds_what_lies_there_or_nothing(path: str, expected: Any) -> None:
    assert read_path({"a": [{"b": 1}, {"b": 2}], "c": {}, "d": "x"}, path) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_an_age_is_written_as_kubernetes_does(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (f"{TABLE},application/json", True),
        (f"application/json;as=Table;v=v1beta1;g=meta.k8s.io,{TABLE}", False),
        (f"application/vnd.kubernetes.protobuf,{TABLE}", True),
        (f"application/json,{TABLE}", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_a_table_is_answered_where_it_is_wanted_first(accept: str, expected: bool) -> None:
    assert wants_table(accept) is expected


# --- selectors ---


@pytest.mark.parametrize(
    ("query", "is_chosen"),
    [
        ({"fieldSelector": "metadata.name=helmet"}, True),
        ({"fieldSelector": "metadata.name==helmet,metadata.namespace=shop"}, True),
        ({"fieldSelector": "metadata.name!=helmet"}, False),
        ({"fieldSelector": "metadata.namespace=default"}, False),
        ({"labelSelector": "app=web"}, True),
        ({"labelSelector": "app=db"}, False),
        ({"labelSelector": "app!=db,tier"}, True),
        ({"labelSelector": "!tier"}, False),
        ({"labelSelector": "!nothing"}, True),
        ({"labelSelector": "app in (web, db),tier notin (back)"}, True),
        ({"labelSelector": "app notin (web)"}, False),
        ({"labelSelector": "nothing in (web)"}, False),
        ({}, True),
    ],
)
def test_a_selector_takes_what_it_says(query: dict[str, str], is_chosen: bool) -> None:
    assert selector_of(query).takes(service(labels={"app": "web", "tier": "front"})) is is_chosen


@pytest.mark.parametrize(
    "query",
    [
        {"fieldSelector": "spec.x=1"},
        {"fieldSelector": "metadata.name"},
        {"labelSelector": "a=b=c"},
        {"labelSelector": "a in b"},
        {"labelSelector": "a>1 b"},
    ],
)
def test_a_selector_that_is_none_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        selector_of(query)


@pytest.mark.slow
@given(st.text(max_size=30))
def test_whatever_is_sent_as_a_selector_it_is_one_or_refused(text: str) -> None:
    for ask in (lambda: selector_of({"labelSelector": text, "fieldSelector": text}), lambda: fields_of(text)):
        try:
            ask()
        except BadRequest as error:
            assert error.message


# --- options ---


def request(query: dict[str, str], agent: str = "") -> Request:
    headers = [(b"user-agent", agent.encode())]
    return Request({"type": "http", "query_string": urlencode(query).encode(), "headers": headers})


@pytest.mark.parametrize(
    "query",
    [{"fieldValidation": "Loose"}, {"dryRun": "true"}, {"fieldManager": "m" * 129}, {"fieldManager": "a\nb"}],
)
def test_an_option_that_is_none_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        write_options(request(query))


def test_who_sets_fields_is_named_by_the_query_or_by_the_program() -> None:
    agent = "kubectl/v1.32.4 (linux/amd64)"
    assert write_options(request({"fieldManager": "alice", "force": "true"}, agent)).manager == "alice"
    assert write_options(request({}, agent)).manager == "kubectl"
    assert write_options(request({})).manager == "modelmill"


@pytest.mark.parametrize("text", ["-1", "ten", "1.5", "²", "9" * 30])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        number_of({"limit": text}, "limit", default=0, most=10)


# --- errors ---


def test_a_refusal_names_each_field() -> None:
    problems = [
        {"path": "$.spec.edgeWorker.name", "message": "is missing"},
        {"path": "$.spec.cloudWorker.workerSpec.parameters[0].key", "message": "must be a text, not a number"},
    ]
    status = status_of(InvalidResource("bad", detail={"problems": problems}), "helmet")
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "Invalid", 422)
    assert status["details"] == {
        "group": "neptune.io",
        "kind": "JointInferenceService",
        "name": "helmet",
        "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.edgeWorker.name"},
            {
                "reason": "FieldValueInvalid",
                "message": "must be a text, not a number",
                "field": "spec.cloudWorker.workerSpec.parameters[0].key",
            },
        ],
    }


def test_a_service_that_is_not_there_is_named_as_kubernetes_names_it() -> None:
    status = status_of(ServiceNotFound("gone"), "helmet")
    assert status["message"] == 'jointinferenceservices.neptune.io "helmet" not found'
    assert (status["reason"], status["code"], status["details"]["name"]) == ("NotFound", 404, "helmet")


# --- OpenAPI ---


def test_all_that_the_document_refers_to_is_in_it() -> None:
    whole = document(*GROUPS)
    refs = {f"#/components/schemas/{name}" for name in whole["components"]["schemas"]}
    text = json.dumps(whole)
    assert {piece.split('"')[0] for piece in text.split('"$ref": "')[1:]} <= refs
    ids = [
        operation["operationId"]
        for path in whole["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict)
    ]
    assert len(ids) == len(set(ids))


def test_the_document_says_that_fields_are_checked_here() -> None:
    """kubectl looks for it in the operation that patches, and would else not let a resource be created."""
    for group in GROUPS:
        one = document(group)["paths"][f"{group.path}/namespaces/{{namespace}}/jointinferenceservices/{{name}}"]
        assert "fieldValidation" in {parameter["name"] for parameter in one["patch"]["parameters"]}
        assert one["patch"]["x-kubernetes-group-version-kind"] == group.kind
    patch = document(GROUPS[1])["paths"]["/apis/sedna.io/v1alpha1/models/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"] == {"group": "sedna.io", "kind": "Model", "version": "v1alpha1"}
