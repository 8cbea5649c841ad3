"""The OpenAPI documents of the Kubernetes-shaped API, one for each group: kubectl validates and explains fields by
them.

kubectl takes its schemas from them, and whether the server validates fields itself (fieldValidation), which it does.
Version 2 is served as JSON. kubectl requests only its binary form, which is not served, and continues without it.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.joint_inference.kubernetes.groups import GROUPS, NEPTUNE, ApiGroup, group_of
from app.joint_inference.kubernetes.openapi_v2 import to_version_2
from app.joint_inference.kubernetes.representations import failure
from app.joint_inference.model.crd import METADATA_SCHEMA, SCHEMA
from app.joint_inference.model.resource import KIND, PLURAL, VERSION
from app.joint_inference.sedna import MODEL, MODELS
from app.kit.errors import NotFound
from app.kit.text.json_values import JsonObject
from app.kit.web.idempotency import HEADER
from app.kit.web.idempotency import SCHEMA as SCHEMA_OF_KEY

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TEXT = {"type": "string"}
_DESCRIBED = {
    "edgeWorker": "The worker at the edge, with the small model.",
    "cloudWorker": "The worker in the cloud, with the big model.",
}
_MODEL = {
    "spec": {
        "description": "As `modelmill joint apply` reads it, which registers the file; kubectl does not.",
        "type": "object",
        "required": ["url"],
        "properties": {
            "url": {**_TEXT, "description": "Path or http(s) URL of the file."},
            "format": {**_TEXT, "description": "Of the file: onnx. Default: the ending of its name."},
        },
    },
    "status": {"description": "The newest version that is registered.", "type": "object"},
}


async def v3(_: Request) -> Response:
    urls = {group.path: f"/openapi/v3{group.path}?hash={_compute_digest(group)}" for group in GROUPS}
    return JSONResponse({"paths": {path.removeprefix("/"): {"serverRelativeURL": url} for path, url in urls.items()}})


async def v3_of_group(request: Request) -> Response:
    group = group_of(request)
    return Response(_load_text(group), media_type="application/json", headers={"ETag": f'"{_compute_digest(group)}"'})


async def v2(request: Request) -> Response:
    accepted = {part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "*/*").split(",")}
    if accepted.isdisjoint(("application/json", "application/*", "*/*", "*", "")):
        return failure(NotFound("OpenAPI of version 2 is served only as JSON; see /openapi/v3, too."))
    return JSONResponse(to_version_2(document(*GROUPS)))


@cache
def _load_text(group: ApiGroup) -> bytes:
    return json.dumps(document(group)).encode()


@cache
def _compute_digest(group: ApiGroup) -> str:
    return hashlib.sha256(_load_text(group)).hexdigest()[:32].upper()


def document(*groups: ApiGroup) -> JsonObject:
    """Returns the OpenAPI 3.0 document of these groups."""
    return {
        "openapi": "3.0.0",
        "info": {"title": "Modelmill", "version": VERSION},
        "paths": {path: item for group in groups for path, item in _describe_paths(group).items()},
        "components": {"schemas": {name: schema for group in groups for name, schema in _build_schemas(group).items()}},
    }


def _describe_paths(group: ApiGroup) -> JsonObject:
    items = f"{group.path}/namespaces/{{namespace}}/{PLURAL}"
    return {
        f"{group.path}/{PLURAL}": {"get": _describe_operation(group, "listForAllNamespaces", "list")},
        items: {
            "parameters": [_in_path("namespace")],
            "get": _describe_operation(group, "list", "list"),
            "post": _add_body(_describe_operation(group, "create", "post", writes=True)),
        },
        f"{items}/{{name}}": _find_one(group, "", "delete"),
        f"{items}/{{name}}/status": _find_one(group, "Status"),
        **({} if group is NEPTUNE else _describe_model_paths(group)),
    }


def _describe_model_paths(group: ApiGroup) -> JsonObject:
    items = f"{group.path}/{MODELS}"
    return {
        items: {
            "get": _describe_operation(group, "list", "list", kind=MODEL),
            "post": _describe_operation(group, "create", "post", kind=MODEL, writes=True),
        },
        f"{items}/{{name}}": _find_one(group, "", kind=MODEL),
    }


def _name_item(group: ApiGroup, kind: str = KIND) -> str:
    return f"{group.schema_prefix}.{kind}"


def _find_one(group: ApiGroup, suffix: str, *further: str, kind: str = KIND) -> JsonObject:
    methods = {"get": "get", "put": "put", "patch": "patch", **{name: name for name in further}}
    return {
        "parameters": [_in_path(name) for name in ("namespace", "name") if kind == KIND or name == "name"],
        **{
            method: _describe_operation(
                group, f"{method}{suffix}", action, kind=kind, writes=method in ("put", "patch")
            )
            for method, action in methods.items()
        },
    }


def _describe_operation(
    group: ApiGroup, name: str, action: str, *, kind: str = KIND, writes: bool = False
) -> JsonObject:
    item = _name_item(group, kind)
    answers = item + ("List" if action == "list" else "")
    response = {"description": "OK", "content": {"application/json": {"schema": _make_ref(answers)}}}
    parameters = [_in_query("dryRun"), _in_query("fieldManager"), _in_query("fieldValidation")] if writes else []
    operation = {
        "operationId": f"{name}{kind}{'' if group is NEPTUNE else group.name}",
        "responses": {"200": response},
        "parameters": parameters,
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {**group.kind, "kind": kind},
    }
    if writes:
        operation["requestBody"] = {"content": {"application/json": {"schema": _make_ref(item)}}}
    return operation


def _add_body(operation: JsonObject) -> JsonObject:
    header = {"name": HEADER, "in": "header", "required": False, "schema": SCHEMA_OF_KEY}
    return {**operation, "parameters": [*operation["parameters"], header]}


def _build_schemas(group: ApiGroup) -> JsonObject:
    spec = json.loads(json.dumps(group.spec_schema))
    for name, description in _DESCRIBED.items():
        spec["properties"][name]["description"] = description
    body = {
        "spec": {**spec, "description": "What is to run where."},
        "status": {
            **SCHEMA["properties"]["status"],
            "description": "What does run, as it was found last.",
        },
    }
    description = "A small model at the edge answers, and asks the big one in the cloud for the hard samples."
    of_models = {} if group is NEPTUNE else _describe_kind(group, MODEL, "A registered model, by its name.", _MODEL)
    return {**_describe_kind(group, KIND, description, body), **of_models, _META: METADATA_SCHEMA}


def _describe_kind(group: ApiGroup, kind: str, description: str, body: JsonObject) -> JsonObject:
    """Returns the schemas of a resource and of a list of them."""
    item = _name_item(group, kind)
    head = {
        "apiVersion": {**_TEXT, "description": group.api_version},
        "kind": {**_TEXT, "description": kind},
        "metadata": {"description": "Name, namespace, labels, annotations.", "allOf": [_make_ref(_META)]},
    }
    return {
        item: {
            "description": description,
            "type": "object",
            "properties": {**head, **body},
            "x-kubernetes-group-version-kind": [{**group.kind, "kind": kind}],
        },
        f"{item}List": {
            "type": "object",
            "required": ["items"],
            "x-kubernetes-group-version-kind": [{**group.kind, "kind": f"{kind}List"}],
            "properties": {
                "apiVersion": _TEXT,
                "kind": _TEXT,
                "metadata": {"type": "object"},
                "items": {"type": "array", "items": _make_ref(item)},
            },
        },
    }


def _make_ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _in_path(name: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


def _in_query(name: str) -> JsonObject:
    return {"name": name, "in": "query", "schema": _TEXT}
