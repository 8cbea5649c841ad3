"""The JSON API of joint inference, but for the one that Kubernetes' tools speak: users' services, and what their nodes
report of them. OPERATIONS is its table of routes."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.joint_inference import responses, schemas
from app.joint_inference.access import joint_of, read_service_name
from app.joint_inference.documents import MAX_BYTES, parse_document
from app.joint_inference.model.resource import PLURAL, Service
from app.joint_inference.model.tally import MAX_BYTES as MAX_ROWS_BYTES
from app.joint_inference.responses import NAMED, SERVICES
from app.joint_inference.sample_upload import read_sample
from app.joint_inference.service.producers import producer_of_service
from app.joint_inference.service.row_report import RowReport, read_rows
from app.joint_inference.service.task_info import WorkerStatus
from app.joint_inference.validation import advice
from app.kit.clock import now
from app.kit.errors import BadRequest
from app.kit.text.untrusted_json import UnreadableJson, read_json
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer, query
from app.kit.web.operations import NODES, USERS, OpenApiSchema, Operations
from app.kit.web.request_body import read_whole_body
from app.nodes.access import node_of
from app.results.endpoints import operations
from app.results.model.producer import Producer

YAML = "application/yaml"
_RESOURCE: OpenApiSchema = {
    "required": True,
    "content": {YAML: {"schema": {"type": "string"}}, "application/json": {"schema": schemas.Resource}},
}
_STATUS: OpenApiSchema = {"required": True, "content": {"application/json": {"schema": WorkerStatus}}}
_SAMPLE: OpenApiSchema = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["sample", "picture"],
                "properties": {
                    "sample": {"type": "string", "description": "JSON"},
                    "picture": {"type": "string", "format": "binary", "description": "JPEG or PNG"},
                },
            }
        }
    },
}
_ONE = f"{SERVICES}/{{namespace}}/{{name}}"
OPERATIONS = Operations(NAMED)


@OPERATIONS.post(
    SERVICES,
    "Create a JointInferenceService; with apply=true, replace an existing one",
    {200: schemas.ServiceAnswer, 201: schemas.ServiceAnswer},
    more_errors=(409,),
    body=_RESOURCE,
    query=schemas.ApplyQuery,
)
async def create_service(request: Request) -> Response:
    resource, user = parse_document(await read_whole_body(request, MAX_BYTES, "A resource")), user_of(request)
    services = joint_of(request).services
    if query(request, schemas.ApplyQuery).apply:
        service, is_new = await run_in_threadpool(services.apply, user, resource, now=now())
    else:
        service, is_new = await run_in_threadpool(services.create, user, resource, now=now()), True
    return await run_in_threadpool(_answer_whole, request, service, 201 if is_new else 200, advice(resource))


@OPERATIONS.get(SERVICES, "List my services, newest first", schemas.ServicesAnswer)
def list_services(request: Request, params: schemas.ServiceQuery) -> Response:
    services, cursor = joint_of(request).services.page(
        user_of(request),
        namespace=params.namespace,
        text=params.q,
        state=params.state,
        cursor=params.cursor,
        limit=params.limit,
    )
    return json_answer(schemas.ServicesAnswer(services=[responses.summary(s) for s in services], next_cursor=cursor))


@OPERATIONS.get(
    _ONE,
    "Get a service: the resource, its workers and their reports",
    schemas.ServiceAnswer,
    version_fields=("resource.metadata.uid", "resource.metadata.generation"),
)
def get_service(request: Request) -> Response:
    return _answer_whole(request, joint_of(request).services.get(user_of(request), *read_service_name(request)))


@OPERATIONS.put(
    _ONE, "Replace the specification of a service", schemas.ServiceAnswer, more_errors=(409,), body=_RESOURCE
)
async def replace_service(request: Request) -> Response:
    resource = parse_document(await read_whole_body(request, MAX_BYTES, "A resource"))
    services = joint_of(request).services
    service = await run_in_threadpool(
        services.replace, user_of(request), *read_service_name(request), resource, now=now()
    )
    return await run_in_threadpool(_answer_whole, request, service, 200, advice(resource))


@OPERATIONS.delete(_ONE, "Delete a service after its workers have stopped", {202: schemas.ServiceAnswer})
def delete_service(request: Request) -> Response:
    return _answer_whole(
        request, joint_of(request).services.delete(user_of(request), *read_service_name(request), now=now()), 202
    )


@OPERATIONS.post(
    f"{_ONE}/rollout",
    "Pause, resume, roll back, retry or promote the roll-out of the edge model of a service",
    schemas.ServiceAnswer,
    more_errors=(409,),
)
def change_rollout(request: Request, body: schemas.RolloutChange) -> Response:
    services, user = joint_of(request).services, user_of(request)
    return _answer_whole(request, services.act_on_rollout(user, *read_service_name(request), body.action, now=now()))


@OPERATIONS.get(f"{_ONE}/events", "List the events of a service, newest first", schemas.EventsAnswer)
def service_events(request: Request) -> Response:
    events = joint_of(request).services.events(user_of(request), *read_service_name(request))
    return json_answer(schemas.EventsAnswer(events=[responses.event(event) for event in events]))


@OPERATIONS.get(f"{_ONE}/samples", "List the newest hard samples of a service with both answers", schemas.SamplesAnswer)
def service_samples(request: Request) -> Response:
    joint, user = joint_of(request), user_of(request)
    service = joint.services.get(user, *read_service_name(request))
    return json_answer(responses.samples(service, joint.samples.of(user, *read_service_name(request))))


@OPERATIONS.get(f"{_ONE}/samples/{{sample_id}}", "Get the picture of a hard sample", ("image/jpeg", "image/png"))
def sample_picture(request: Request, sample_id: str) -> Response:
    samples = joint_of(request).samples
    picture, content_type = samples.picture(user_of(request), *read_service_name(request), sample_id)
    headers = {"Cache-Control": "private, max-age=86400", "Content-Security-Policy": "default-src 'none'; sandbox"}
    return Response(picture, media_type=content_type, headers=headers)


@OPERATIONS.post(
    f"/{{namespace}}/neptune/upstream/{PLURAL}/{{name}}/status",
    "Report the status of a worker (the node's token)",
    schemas.Acknowledged,
    body=_STATUS,
    callers=(*USERS, *NODES),
)
async def report_status(request: Request) -> Response:
    """Of a node for what it runs; of a user for their own."""
    try:
        body = read_json(await read_whole_body(request, MAX_BYTES, "A resource"))
    except UnreadableJson as error:
        raise BadRequest("The body is not JSON.", hint=str(error)) from None
    namespace, name = read_service_name(request)
    reports = joint_of(request).reports
    await run_in_threadpool(reports.take, namespace, name, body, node=node_of(request), user=user_of(request))
    return json_answer(schemas.Acknowledged())


@OPERATIONS.post(
    f"/neptune/link/{{node}}/{PLURAL}/{{uid}}/samples",
    "Report a hard sample (the node's token)",
    {204: None},
    more_errors=(401, 415),
    body=_SAMPLE,
    callers=NODES,
)
async def add_sample(request: Request, uid: str) -> None:
    sample, picture, content_type = await read_sample(request)
    samples = joint_of(request).samples
    await run_in_threadpool(samples.add, node_of(request), uid, sample, picture, content_type, now=now())


@OPERATIONS.post(
    f"/neptune/link/{{node}}/{PLURAL}/{{uid}}/rows",
    "Report rows of a worker (the node's token)",
    {204: None},
    more_errors=(401,),
    body=RowReport,
    callers=NODES,
)
async def add_rows(request: Request, uid: str) -> None:
    report = read_rows(await read_whole_body(request, MAX_ROWS_BYTES, "Rows"))
    reports = joint_of(request).reports
    await run_in_threadpool(reports.add_rows, node_of(request), uid, report, now=now())


def producer_in(request: Request) -> Producer:
    """Returns the service in the path, as those who keep results see it."""
    return producer_of_service(joint_of(request).services.get(user_of(request), *read_service_name(request)))


def _answer_whole(request: Request, service: Service, status: int = 200, warnings: Sequence[str] = ()) -> Response:
    """Waits for the database."""
    workers = joint_of(request).services.workers(service, now=now())
    return json_answer(
        responses.describe_service(service, workers, warnings), status, {"Location": responses.place_of(service)}
    )


OPERATIONS += operations("service", _ONE, NAMED, producer_in)
