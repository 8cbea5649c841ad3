"""The JSON API of models: endpoints parse, call one use case, render. OPERATIONS is its table of routes.

Names stand in the query, for those that point into a job hold a slash.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.conversion.schemas import MODEL_FILES
from app.kit.access import read_allowed
from app.kit.clock import now
from app.kit.objects.blobs import blob_key
from app.kit.web.auth import user_of
from app.kit.web.downloads import stream_bytes
from app.kit.web.http import answer_of, json_answer, json_body
from app.kit.web.multipart import plain_name
from app.kit.web.operations import OpenApiSchema, Operations
from app.model_registry import schemas
from app.model_registry.access import models_of
from app.model_registry.model import Model
from app.model_registry.schemas import ACCESS, DECODER, FILE, MODELS, NAMED, SHARED, TAGS, VERSIONS
from app.model_registry.uploads import receive_model

MEDIA_TYPE = "application/octet-stream"


_FIELDS = {
    "name": {"type": "string"},
    **MODEL_FILES,
    "decoder": {"type": "string"},
    "labels": {"type": "string", "description": "names of the classes, one per line"},
    "preprocess": {"type": "string", "description": "JSON, like options.preprocess of a conversion"},
    "new_version": {
        "type": "boolean",
        "description": "whether it becomes the next version if there is a model of this name",
    },
    "note": {"type": "string"},
}
_BODY: OpenApiSchema = {
    "required": True,
    "content": {
        "multipart/form-data": {  # first, for generators of clients take the first one
            "schema": {"type": "object", "properties": _FIELDS, "required": ["name", "model"]}
        },
        "application/json": {"schema": schemas.NewModel},
    },
}
OPERATIONS = Operations()


@OPERATIONS.get(MODELS, "List my models, newest first", schemas.ModelsAnswer)
def list_models(request: Request, params: schemas.ModelsQuery) -> Response:
    models, cursor = models_of(request).page(user_of(request), text=params.q, cursor=params.cursor, limit=params.limit)
    return json_answer(
        schemas.ModelsAnswer(models=[schemas.model_answer(model) for model in models], next_cursor=cursor)
    )


@OPERATIONS.post(
    MODELS,
    "Add a model to the registry: from a completed job as JSON, or an ONNX file as multipart",
    {201: schemas.ModelAnswer},
    more_errors=(404, 409, 415, 507),
    body=_BODY,
)
async def add_model(request: Request) -> Response:
    """Of a job when it is JSON; uploaded when it is multipart."""
    models, user = models_of(request), user_of(request)
    if request.headers.get("content-type", "").startswith("multipart/"):
        model = await receive_model(request, models, user)
    else:
        body = await json_body(request, schemas.NewModel)
        model = await run_in_threadpool(
            models.add_from_job,
            user,
            body.name,
            body.job_id,
            body.artifact,
            now=now(),
            decoder=body.decoder,
            labels=body.labels,
            versioning=body.versioning,
        )
    return _answer_added(model)


@OPERATIONS.post(
    DECODER,
    "Add a version of a model with a decoder of its own in its file",
    {201: schemas.ModelAnswer},
    more_errors=(404, 409, 507),
)
def set_decoder(request: Request, body: schemas.OwnDecoder, params: schemas.NamedQuery) -> Response:
    models, user = models_of(request), user_of(request)
    return _answer_added(models.set_decoder(user, params.name, body.source, now=now(), note=body.note))


@OPERATIONS.get(NAMED, "Get a model", schemas.ModelAnswer, more_errors=(404,))
def get_model(request: Request, params: schemas.NamedQuery) -> Response:
    return json_answer(schemas.model_answer(models_of(request).get(user_of(request), params.name)))


@OPERATIONS.delete(
    NAMED, "Delete a model and its files, or one version (name@3), unless it is used", more_errors=(404, 409)
)
def remove_model(request: Request, params: schemas.NamedQuery) -> None:
    models_of(request).remove(user_of(request), params.name)


@OPERATIONS.get(
    VERSIONS, "List the versions of a model, newest first, and its tags", schemas.VersionsAnswer, more_errors=(404,)
)
def list_versions(request: Request, params: schemas.NamedQuery) -> Response:
    return _answer_versions(request, params.name)


@OPERATIONS.put(
    TAGS,
    "Set a tag of a model to a version; what uses name@tag switches to it",
    schemas.VersionsAnswer,
    more_errors=(404,),
)
def put_tag(request: Request, tag: str, body: schemas.TagChange, params: schemas.NamedQuery) -> Response:
    models = models_of(request)
    models.set_tag(user_of(request), params.name, tag, body.version, now=now())
    return _answer_versions(request, params.name)


@OPERATIONS.delete(TAGS, "Remove a tag, unless it is used", more_errors=(404, 409))
def remove_tag(request: Request, tag: str, params: schemas.NamedQuery) -> None:
    models_of(request).remove_tag(user_of(request), params.name, tag)


@OPERATIONS.get(SHARED, "List the models of others that I may use, by owner and name", schemas.SharedModelsAnswer)
def list_shared_models(request: Request) -> Response:
    shared = models_of(request).access.seen_by(user_of(request))
    return json_answer(schemas.SharedModelsAnswer(models=[answer_of(schemas.SharedAnswer, model) for model in shared]))


@OPERATIONS.get(ACCESS, "Get who may use a model of mine", schemas.AllowedUsers, more_errors=(404,))
def get_model_access(request: Request, params: schemas.NamedQuery) -> Response:
    rule = models_of(request).access.rule(user_of(request), params.name)
    return json_answer(schemas.AllowedUsers(allowed=rule.to_json()))


@OPERATIONS.put(
    ACCESS, "Set who may use a model of mine in services and stages", schemas.AllowedUsers, more_errors=(404,)
)
def put_model_access(request: Request, body: schemas.AllowedUsers, params: schemas.NamedQuery) -> Response:
    rule = read_allowed(body.allowed)
    models_of(request).access.permit(user_of(request), params.name, rule)
    return json_answer(schemas.AllowedUsers(allowed=rule.to_json()))


def _answer_added(model: Model) -> Response:
    location = schemas.address(NAMED, model.name if model.version == 1 else model.pin)
    return json_answer(schemas.model_answer(model), 201, {"Location": location})


def _answer_versions(request: Request, name: str) -> Response:
    return json_answer(schemas.versions_answer(*models_of(request).versions(user_of(request), name)))


@OPERATIONS.get(
    FILE,
    "Download the file of a model; Range is honored",
    {200: (MEDIA_TYPE,), 206: (MEDIA_TYPE,), 304: None},
    more_errors=(404, 416),
)
def get_model_file(request: Request, params: schemas.NamedQuery) -> Response:
    models = models_of(request)
    card = models.get(user_of(request), params.name).card
    key = blob_key(card.sha256)
    return stream_bytes(
        request,
        lambda start, end: models.objects.read(key, start=start, end=end),
        size=card.size_bytes,
        etag=card.sha256,
        name=file_name(card.name, card.format.value),
        media_type=MEDIA_TYPE,
    )


def file_name(name: str, ending: str) -> str:
    """What its file is saved as. Of a name that points into a job it is the job's: faces/out.nef → faces.nef."""
    stem = name.removesuffix(f"/out.{ending}").removesuffix(f".{ending}")
    return f"{plain_name(stem)}.{ending}"
