"""GET of the registered models, as resources of Sedna's group that are in no namespace and can only be read.

No name in Kubernetes contains a slash. Names are written as in a JSON Pointer (RFC 6901), like the keys in the paths of
`kubectl patch`: alice/small is alice~1small.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.joint_inference.kubernetes.read_endpoints import MOST, include_of
from app.joint_inference.kubernetes.representations import speaks_status, table_of
from app.joint_inference.kubernetes.requests import selector_of, wants_table
from app.joint_inference.sedna import MODEL, SEDNA
from app.kit.clock import now
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.http import answer_of
from app.model_registry.access import models_of
from app.model_registry.model import no_such_model
from app.model_registry.schemas import SharedAnswer, model_answer

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
    resources = await run_in_threadpool(_read_models, request)
    model = next((one for one in resources if one["metadata"]["name"] == name), None)
    if model is None:
        raise no_such_model(name)
    return _answer(request, [model], model)


def to_resource_name(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _answer(request: Request, resources: Sequence[JsonObject], whole: JsonObject) -> Response:
    if not wants_table(request.headers.get("accept", "")):
        return JSONResponse(whole)
    return JSONResponse(table_of(resources, {}, now=now(), include=include_of(request), columns=COLUMNS))


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
    metadata = {"name": to_resource_name(status["name"]), "creationTimestamp": f"{status['createdAt'][:19]}Z"}
    return {"apiVersion": SEDNA, "kind": MODEL, "metadata": metadata, "spec": spec, "status": status}
