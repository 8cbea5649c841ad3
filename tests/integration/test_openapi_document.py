"""The OpenAPI document is one that client generators can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel

from app.kit.web.api_page import groups
from app.kit.web.described_type import DescribedType
from app.kit.web.openapi import document
from app.kit.web.operations import Operation
from app.kit.web.templates import environment
from app.main import create_app
from app.settings import Settings

OPEN = {"application/json", "application/yaml", "text/event-stream"}


@pytest.fixture
def served(settings: Settings) -> Iterator[dict[str, Any]]:
    app = create_app(settings)
    yield json.loads(json.dumps(app.state.openapi()))
    app.state.container.sandbox.close()
    app.state.container.close()
    app.state.container.broker.close()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (each for name, each in value.items() if name == "$ref")
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from references(each)


def test_the_whole_document_is_valid(served: dict[str, Any]) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(served).iter_errors()] == []


def test_every_reference_leads_to_a_schema_and_every_schema_is_used(served: dict[str, Any]) -> None:
    schemas = {f"#/components/schemas/{name}" for name in served["components"]["schemas"]}
    assert set(references(served)) == schemas
    assert not [name for name in schemas if "__" in name], "names are for people"


def test_all_that_its_page_says_of_a_call_is_translated(served: dict[str, Any]) -> None:
    advice = environment("zh-Hant").filters["advice"]
    by_tag = groups(served, "")
    calls = [call for group in by_tag.values() for call in group]
    texts = {text for call in calls for text in (call.summary, *(row.description for row in call.rows)) if text}
    texts |= by_tag.keys()
    assert len(texts) > 200
    assert [text for text in sorted(texts) if 'lang="en"' in advice(text)] == []


ANY_VALUE = {
    "ActionAnswer.options_patch": "a JSON merge patch",
    "ActionAnswer.params": "by the code of the action",
    "ByAddress.{}": "of the policy",
    "CalibrationAnswer.error": "an error, or nothing",
    "AccountsEntryAnswer.detail": "by the kind of the entry",
    "Failure.detail": "by the code of the error",
    "FrameAnswer.header": "of a message to a node",
    "JointInferenceWorkerAnswer.detail": "what the worker says",
    "JsonValue": "any value",
    "ModelCard.preprocess": "Preprocess, or nothing",
    "NewConversion.options": "of another capability",
    "NodesNodeAnswer.offers": "by kind of work",
    "NodesWorkerAnswer.detail": "what the worker says",
    "Outputs": "of a stage",
    "Refusal.detail": "by the code of the error",
    "Report.report": "of an agent",
    "SampleAnswer.extra": "what the algorithm says",
    "TrainingEventAnswer.payload": "by the type of the event",
    "TransferFailure.detail": "by the code of the error",
    "WaitingAnswer.facts": "by the code of the reason",
    "WarningEntry.detail": "by the code of the warning",
    "WhatIf.nodes.{}": "assumptions",
    "WholeCalibrationAnswer.error": "an error, or nothing",
    "WorkerOutput.models.[]": "of the requirement",
}


def open_places(schema: Any, place: str) -> Iterator[str]:
    """Where a schema accepts any value, or any object: a generated client gets no type there."""
    if not isinstance(schema, dict):
        return
    keywords = schema.keys() - {"title", "description", "default"}
    is_any_object = keywords <= {"type", "additionalProperties"} and schema.get("additionalProperties", True) is True
    if not keywords or (schema.get("type") == "object" and is_any_object):
        yield place
        return
    for name, part in schema.get("properties", {}).items():
        yield from open_places(part, f"{place}.{name}")
    yield from open_places(schema.get("items"), f"{place}.[]")
    yield from open_places(schema.get("additionalProperties"), f"{place}.{{}}")
    for part in (part for name in ("anyOf", "oneOf", "allOf") for part in schema.get(name, ())):
        yield from open_places(part, place)


def test_clients_that_are_generated_get_types_but_where_any_value_may_stand(served: dict[str, Any]) -> None:
    schemas = served["components"]["schemas"].items()
    assert {place for name, schema in schemas for place in open_places(schema, name)} == ANY_VALUE.keys()


def test_each_operation_says_who_may_ask(served: dict[str, Any], settings: Settings) -> None:
    """Without accounts nobody needs a token, but nodes; a link that is signed and what all may see never need one."""
    users, nodes = [{"token": []}, {"session": []}], [{"node": []}]
    expected = {
        ("/healthz", "get"): [],
        ("/openapi.json", "get"): [],
        ("/objects/{key}", "put"): [],
        ("/jobs", "post"): [{}, *users],
        ("/neptune/link/{node}/messages", "get"): nodes,
        ("/{namespace}/neptune/upstream/jointinferenceservices/{name}/status", "post"): [{}, *users, *nodes],
    }
    assert {at: served["paths"][at[0]][at[1]]["security"] for at in expected} == expected
    assert "security" not in served
    assert all("security" in operation for path in served["paths"].values() for operation in path.values())
    team = document([operation("/try")], title="Team", version="1", demands_accounts=True)
    assert team["paths"]["/try"]["post"]["security"] == users
    assert settings.demands_accounts is False


def test_files_are_binary_and_lines_are_text(served: dict[str, Any]) -> None:
    """Generated clients decode what has no schema as text, which destroys a file."""
    for path, operations in served["paths"].items():
        answers = (item for operation in operations.values() for item in operation["responses"].items())
        for status, answer in answers:
            for media_type, content in answer.get("content", {}).items():
                assert content["schema"] or media_type in OPEN, (path, status, media_type)
    download = served["paths"]["/jobs/{job_id}/artifacts/{name}"]["get"]["responses"]["200"]["content"]
    assert download["application/octet-stream"] == {"schema": {"type": "string", "format": "binary"}}
    assert served["paths"]["/sweeps/{sweep_id}/table.csv"]["get"]["responses"]["200"]["content"] == {
        "text/csv": {"schema": {"type": "string"}}
    }


def test_what_receives_a_body_says_that_it_may_come_too_slowly(served: dict[str, Any]) -> None:
    for path, operations in served["paths"].items():
        for method, status in operations.items():
            assert ("408" in status["responses"]) == ("requestBody" in status), f"{method} {path}"


def make(name: str, **fields: Any) -> type[BaseModel]:
    return type(name, (BaseModel,), {"__annotations__": fields, "__module__": f"app.{fields.pop('of')}.schemas"})


def operation(path: str, **more: Any) -> Operation:
    def endpoint() -> None:
        """Answers nothing."""

    endpoint.__name__ = path.strip("/")
    return Operation("POST", path, endpoint, "Try.", more.pop("answers", {200: None}), **more)


def test_two_models_of_one_name_stay_apart() -> None:
    left, right = make("Thing", of="left", a=int), make("Thing", of="right", b=str)
    made = document([operation("/left", body=left), operation("/right", body=right)], title="Two", version="1")
    schemas = [
        made["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        for path in ("/left", "/right")
    ]
    assert schemas == [{"$ref": "#/components/schemas/LeftThing"}, {"$ref": "#/components/schemas/RightThing"}]
    assert set(made["components"]["schemas"]["LeftThing"]["properties"]) == {"a"}
    assert set(made["components"]["schemas"]["RightThing"]["properties"]) == {"b"}


def test_what_a_body_may_leave_out_is_not_required() -> None:
    class WithDefault(BaseModel):
        given: int
        left_out: int = 7

    made = document([operation("/try", body=WithDefault)], title="Defaults", version="1")
    assert made["components"]["schemas"]["WithDefault"]["required"] == ["given"]


PARTS = {
    ("ConversionJobAnswer", "options"): "Options",
    ("ConversionJobAnswer", "intake"): "Intake",
    ("ConversionStageAnswer", "summary"): "StageSummary",
    ("CandidateAnswer", "options"): "KneronOptions",
    ("ResultAnswer", "options"): "Options",
    ("ModelBody", "options"): "Options",
    ("ModelAnswer", "preprocess"): "Preprocess",
    ("ModelAnswer", "metrics"): "ModelMetrics",
    ("DeliveryAnswer", "body"): "DeliveryBody",
}


def test_stored_parts_of_an_answer_have_a_schema_of_their_own(served: dict[str, Any]) -> None:
    schemas = served["components"]["schemas"]
    refs = {at: schemas[at[0]]["properties"][at[1]].get("$ref") for at in PARTS}
    assert refs == {at: f"#/components/schemas/{name}" for at, name in PARTS.items()}
    assert schemas["CandidateAnswer"]["properties"]["steps"]["items"] == {
        "$ref": "#/components/schemas/QuantizationStep"
    }


def test_what_is_described_as_a_type_is_not_checked_by_it() -> None:
    class Point(BaseModel):
        x: int

    class Stored(BaseModel):
        point: Annotated[dict[str, Any], DescribedType(Point)]

    assert Stored(point={"y": "of an earlier version"}).model_dump() == {"point": {"y": "of an earlier version"}}
    assert Stored.model_json_schema()["properties"]["point"]["$ref"] == "#/$defs/Point"
