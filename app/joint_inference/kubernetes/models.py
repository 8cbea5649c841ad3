"""The registered models, as resources of Sedna's group that are in no namespace.

They are read here, and not changed: `modelmill joint apply` fetches the file of a Model, and registers it. So that
kubectl can apply a file with Models and a service, a Model whose name is registered is accepted, and stays as it is.

No name in Kubernetes contains a slash. Names are written as in a JSON Pointer (RFC 6901), like the keys in the paths of
`kubectl patch`: alice/small is alice~1small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.joint_inference.errors import ModelUnfetched
from app.joint_inference.kubernetes.read_endpoints import MOST, include_of
from app.joint_inference.kubernetes.representations import add_warnings, speaks_status, table_of
from app.joint_inference.kubernetes.requests import (
    APPLY,
    MERGE,
    UnknownPatch,
    body_of,
    content_type,
    selector_of,
    wants_table,
    write_options,
)
from app.joint_inference.kubernetes.write_endpoints import answer_post, check_place, metadata_of
from app.joint_inference.sedna import MODEL, SEDNA, SednaModel, check_source, describe_use, make_unfetched, read_model
from app.kit.clock import now
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.kit.text.merge_patch import merge_patch
from app.kit.web.auth import user_of
from app.kit.web.http import answer_of
from app.model_registry.access import models_of
from app.model_registry.errors import ModelExists
from app.model_registry.model import no_such_model
from app.model_registry.schemas import SharedAnswer, model_answer

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation with what `kubectl apply` sent last. Nothing of that is stored here; without the annotation, kubectl
would say at each apply that it adds it."""
COLUMNS = (
    {"name": "Version", "type": "integer", "jsonPath": ".status.version"},
    {"name": "Format", "type": "string", "jsonPath": ".spec.format"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)


@speaks_status
async def list_models(request: Request) -> Response:
    query = request.query_params
    if query.get("watch", "").lower() in ("true", "1"):
        raise BadRequest("Models are listed, not watched.", hint="Read the list again.")
    selector = selector_of(query)
    resources = await run_in_threadpool(_read_models, request)
    chosen = [one for one in resources if selector.matches({"metadata.name": one["metadata"]["name"]}, {})]
    models = {"kind": f"{MODEL}List", "apiVersion": SEDNA, "metadata": {}, "items": chosen}
    return _answer(request, chosen, models)


@speaks_status
async def get_model(request: Request) -> Response:
    name = request.path_params["name"]
    model = await run_in_threadpool(_find_model, request, name)
    if model is None:
        raise no_such_model(name)
    return _answer(request, [model], model)


@speaks_status
async def create_model(request: Request) -> Response:
    """Refuses the Model: either its name is registered, or its file is to be."""
    return await answer_post(request, _refuse_new)


@speaks_status
async def change_model(request: Request) -> Response:
    """PUT and PATCH: accepts a Model whose name is registered, warns of what has no effect, and changes nothing."""
    if request.method == "PATCH" and content_type(request) not in (MERGE, APPLY):
        raise UnknownPatch("A Model is patched by a merge patch or applied.", hint=f"Send {MERGE} or {APPLY}.")
    body = await body_of(request)
    return await run_in_threadpool(_answer_change, request, body)


def _refuse_new(request: Request, resource: Any) -> NoReturn:
    write_options(request)
    model = _parse_model(resource)
    if _find_model(request, model.name):
        raise ModelExists(f"There is a model {model.name!r} already.")
    raise _explain_unused_file(model)


def _answer_change(request: Request, body: Any) -> Response:
    write_options(request)
    name = request.path_params["name"]
    present = _find_model(request, name)
    if present is None:
        if content_type(request) == APPLY:
            _refuse_new(request, body)
        raise no_such_model(name)
    resource = merge_patch(present, body) if request.method == "PATCH" else body
    check_place(resource, None, name)
    model = _parse_model(resource)
    warnings = _list_ignored(resource)
    if model.url != present["spec"].get("url"):
        warnings.append(describe_use(_explain_unused_file(model), present["status"]["version"]))
    return add_warnings(_answer(request, [present], present), warnings)


def _parse_model(resource: Any) -> SednaModel:
    model = read_model(resource)
    if model is None:
        raise BadRequest(f"The body is no {MODEL} of {SEDNA}.")
    return model


def _explain_unused_file(model: SednaModel) -> ModelUnfetched:
    try:
        check_source(model)
    except ModelUnfetched as error:
        return error
    return make_unfetched(model, "is fetched by `modelmill joint apply`, not by kubectl")


def _list_ignored(resource: JsonObject) -> list[str]:
    metadata = {**metadata_of(resource)}
    if isinstance(annotations := metadata.get("annotations"), dict):
        metadata["annotations"] = annotations.keys() - {LAST_APPLIED}
    paths = [f"spec.{key}" for key in resource["spec"] if key not in ("url", "format")]
    paths += [f"metadata.{key}" for key in ("labels", "annotations") if metadata.get(key)]
    return [f"{path} has no effect here" for path in paths]


def to_resource_name(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _answer(request: Request, resources: Sequence[JsonObject], whole: JsonObject) -> Response:
    if not wants_table(request.headers.get("accept", "")):
        return JSONResponse(whole)
    return JSONResponse(table_of(resources, {}, now=now(), include=include_of(request), columns=COLUMNS))


def _find_model(request: Request, name: str) -> JsonObject | None:
    return next((one for one in _read_models(request) if one["metadata"]["name"] == name), None)


def _read_models(request: Request) -> list[JsonObject]:
    """Returns the caller's models and those of others that they may use, by name. The caller's own come first where
    both have the same name."""
    models, user = models_of(request), user_of(request)
    own, _ = models.page(user, limit=MOST)
    answers: list[BaseModel] = [answer_of(SharedAnswer, shared) for shared in models.access.seen_by(user)]
    resources = [_describe(answer) for answer in (*answers, *map(model_answer, own))]
    by_name = {resource["metadata"]["name"]: resource for resource in resources}
    return [by_name[name] for name in sorted(by_name)]


def _describe(answer: BaseModel) -> JsonObject:
    """Returns a resource whose spec is Sedna's: of a model of another owner, whose file is not shown, it is empty."""
    status = {to_camel(name): value for name, value in answer.model_dump(mode="json").items()}
    spec = {"url": status["links"]["file"], "format": status["format"]} if "links" in status else {}
    metadata = {
        "name": to_resource_name(status["name"]),
        "annotations": {LAST_APPLIED: "{}"},
        "creationTimestamp": f"{status['createdAt'][:19]}Z",
    }
    return {"apiVersion": SEDNA, "kind": MODEL, "metadata": metadata, "spec": spec, "status": status}
