"""The OpenAPI documents of the Kubernetes-shaped API: used by kubectl to validate and explain fields.

kubectl takes its schemas from them, and whether the server validates fields itself (fieldValidation), which it does.
Version 2 is served as JSON. kubectl requests only its binary form, which is not served, and continues without it.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.joint_inference.kubernetes.openapi_v2 import to_version_2
from app.joint_inference.kubernetes.representations import failure
from app.joint_inference.model.crd import METADATA_SCHEMA, SCHEMA
from app.joint_inference.model.resource import API_VERSION, GROUP, KIND, LIST_KIND, PLURAL, VERSION
from app.kit.errors import NotFound
from app.kit.text.json_values import JsonObject
from app.kit.web.idempotency import HEADER
from app.kit.web.idempotency import SCHEMA as SCHEMA_OF_KEY

V3 = f"/openapi/v3/apis/{API_VERSION}"
_KIND = [{"group": GROUP, "kind": KIND, "version": VERSION}]
_ITEM = "io.neptune.v1alpha1.JointInferenceService"
_LIST = f"{_ITEM}List"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ITEMS_PATH = f"/apis/{API_VERSION}/namespaces/{{namespace}}/{PLURAL}"
_TEXT = {"type": "string"}
_DESCRIBED = {
    "edgeWorker": "The worker at the edge, with the small model.",
    "cloudWorker": "The worker in the cloud, with the big model.",
}


async def v3(_: Request) -> Response:
    return JSONResponse({"paths": {f"apis/{API_VERSION}": {"serverRelativeURL": f"{V3}?hash={_compute_digest()}"}}})


async def v3_of_ours(_: Request) -> Response:
    return Response(_load_text(), media_type="application/json", headers={"ETag": f'"{_compute_digest()}"'})


async def v2(request: Request) -> Response:
    accepted = {part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "*/*").split(",")}
    if accepted.isdisjoint(("application/json", "application/*", "*/*", "*", "")):
        return failure(NotFound("OpenAPI of version 2 is served only as JSON; see /openapi/v3, too."))
    return JSONResponse(to_version_2(document()))


@cache
def _load_text() -> bytes:
    return json.dumps(document()).encode()


@cache
def _compute_digest() -> str:
    return hashlib.sha256(_load_text()).hexdigest()[:32].upper()


def document() -> JsonObject:
    """Returns the OpenAPI 3.0 document of the group and version."""
    return {
        "openapi": "3.0.0",
        "info": {"title": "Modelmill", "version": VERSION},
        "paths": {
            f"/apis/{API_VERSION}/{PLURAL}": {"get": _describe_operation("listForAllNamespaces", "list", _LIST)},
            _ITEMS_PATH: {
                "parameters": [_in_path("namespace")],
                "get": _describe_operation("list", "list", _LIST),
                "post": _add_body(_describe_operation("create", "post", _ITEM, writes=True)),
            },
            f"{_ITEMS_PATH}/{{name}}": _find_one("", "delete"),
            f"{_ITEMS_PATH}/{{name}}/status": _find_one("Status"),
        },
        "components": {"schemas": _build_schemas()},
    }


def _find_one(suffix: str, *further: str) -> JsonObject:
    methods = {"get": "get", "put": "put", "patch": "patch", **{name: name for name in further}}
    return {
        "parameters": [_in_path("namespace"), _in_path("name")],
        **{
            method: _describe_operation(f"{method}{suffix}", action, _ITEM, writes=method in ("put", "patch"))
            for method, action in methods.items()
        },
    }


def _describe_operation(name: str, action: str, answers: str, *, writes: bool = False) -> JsonObject:
    response = {"description": "OK", "content": {"application/json": {"schema": _make_ref(answers)}}}
    parameters = [_in_query("dryRun"), _in_query("fieldManager"), _in_query("fieldValidation")] if writes else []
    operation = {
        "operationId": f"{name}{KIND}",
        "responses": {"200": response},
        "parameters": parameters,
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _KIND[0],
    }
    if writes:
        operation["requestBody"] = {"content": {"application/json": {"schema": _make_ref(_ITEM)}}}
    return operation


def _add_body(operation: JsonObject) -> JsonObject:
    header = {"name": HEADER, "in": "header", "required": False, "schema": SCHEMA_OF_KEY}
    return {**operation, "parameters": [*operation["parameters"], header]}


def _build_schemas() -> JsonObject:
    head = {
        "apiVersion": {**_TEXT, "description": API_VERSION},
        "kind": {**_TEXT, "description": KIND},
        "metadata": {"description": "Name, namespace, labels, annotations.", "allOf": [_make_ref(_META)]},
    }
    spec = json.loads(json.dumps(SCHEMA["properties"]["spec"]))
    for name, description in _DESCRIBED.items():
        spec["properties"][name]["description"] = description
    body = {
        "spec": {**spec, "description": "What is to run where."},
        "status": {
            **SCHEMA["properties"]["status"],
            "description": "What does run, as it was found last.",
        },
    }
    of_list = [{**_KIND[0], "kind": LIST_KIND}]
    return {
        _ITEM: {
            "description": "A small model at the edge answers, and asks the big one in the cloud for the hard samples.",
            "type": "object",
            "properties": {**head, **body},
            "x-kubernetes-group-version-kind": _KIND,
        },
        _LIST: {
            "type": "object",
            "required": ["items"],
            "x-kubernetes-group-version-kind": of_list,
            "properties": {
                "apiVersion": _TEXT,
                "kind": _TEXT,
                "metadata": {"type": "object"},
                "items": {"type": "array", "items": _make_ref(_ITEM)},
            },
        },
        _META: METADATA_SCHEMA,
    }


def _make_ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _in_path(name: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


def _in_query(name: str) -> JsonObject:
    return {"name": name, "in": "query", "schema": _TEXT}
