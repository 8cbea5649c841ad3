"""The agent's endpoints for joint inference: the downstream paths, and the reports of workers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.edge.agent.driver import Agent
from app.edge.worker_server import HINT, json_of, with_refusals
from app.joint_inference.model.resource import PLURAL, Role
from app.joint_inference.model.tally import MAX_BYTES as MAX_ROWS_BYTES
from app.joint_inference.model.tally import Sample
from app.kit.errors import BadRequest, NotFound
from app.kit.text.json_form import FormError, JsonForm
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_json, read_object
from app.kit.web.multipart import parts_in
from app.kit.web.request_body import read_whole_body
from app.nodes.model import Operation, Order, WorkerReport, WorkKey

MAX_BODY_BYTES = 1 << 20
MAX_PICTURE_BYTES = 256 << 10
MAX_SAMPLE_BYTES = 128 << 10
KEPT_SAMPLES = 20
"""Number of unsent samples of a service that are stored while the web is unreachable; pages show no more."""
OWNER_KINDS = ("jointinferenceservice", PLURAL, "jis")
OK = {"Status": 200, "Message": "OK"}
NameOf = Callable[[Order], str]


class UnknownWorker(NotFound, code="WORKER_NOT_FOUND"): ...


@dataclass(frozen=True)
class WorkerInfo:
    """A worker's report of itself, in the form of the requirement."""

    name: str
    namespace: str
    ownerName: str
    ownerKind: str
    status: Literal["completed", "failed", "running"]
    kind: str = "inference"
    taskInfo: JsonObject | None = None
    ownerInfo: JsonObject | None = None
    """Sedna's name for taskInfo."""
    uid: str = ""
    """Of the service."""
    detail: JsonObject = field(default_factory=dict)


WORKER_INFO = JsonForm(WorkerInfo)


def routes(agent: Agent, name_of: NameOf) -> list[BaseRoute]:
    endpoints = DriverEndpoints(agent, name_of)
    return [
        Route(
            "/{namespace}/neptune/downstream/" + PLURAL + "/{name}/{operation}",
            with_refusals(endpoints.downstream),
            methods=["POST"],
        ),
        Route("/neptune/services/{namespace}/{name}", with_refusals(endpoints.service)),
        Route("/neptune/workers/{worker}/info", with_refusals(endpoints.info), methods=["POST"]),
        Route("/neptune/workers/{worker}/samples", with_refusals(endpoints.sample), methods=["POST"]),
        Route("/neptune/workers/{worker}/rows", with_refusals(endpoints.rows), methods=["POST"]),
    ]


class DriverEndpoints:
    def __init__(self, agent: Agent, name_of: NameOf) -> None:
        self.agent = agent
        self.name_of = name_of
        self._numbers = count()

    async def downstream(self, request: Request) -> Response:
        """Accepts an order by hand: the service in the form of the Kubernetes API."""
        path = request.path_params
        if path["operation"] not in {operation.value for operation in Operation}:
            raise NotFound(f"There is no {path['operation']} here: insert, update and delete.")
        resource = _read_object(await read_whole_body(request, MAX_BODY_BYTES, "A body"))
        metadata = resource.get("metadata")
        _check_agreement(metadata, "name", path["name"])
        _check_agreement(metadata, "namespace", path["namespace"])
        for order in self._make_orders(path["namespace"], path["name"], resource, Operation(path["operation"])):
            await self.agent.take(order)
        return JSONResponse(OK)

    async def service(self, request: Request) -> Response:
        """Sends the workers of a service on this node, and where they listen, for programs that call them."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        reports = [one for one in self.agent.reports(PLURAL) if (one.namespace, one.owner_name) == (namespace, name)]
        if not reports:
            raise NotFound(f"This node runs no service {namespace}/{name}.")
        return JSONResponse({"items": [_describe_worker(report) for report in reports]})

    async def info(self, request: Request) -> Response:
        body = await read_whole_body(request, MAX_BODY_BYTES, "A body")
        try:
            info = WORKER_INFO.read(read_json(body))
        except FormError as error:
            raise BadRequest(f"{error.place[0] if error.place else 'body'}: {error.problem}") from None
        except UnreadableJson:
            raise BadRequest("body: This is no JSON.") from None
        worker = request.path_params["worker"]
        if info.name != worker:
            raise BadRequest(f"The body is of the worker {info.name!r}, and the path of {worker!r}.")
        if info.ownerKind.lower() not in OWNER_KINDS:
            raise BadRequest(f"There is no owner of the kind {info.ownerKind!r}.", hint=f"Known is {OWNER_KINDS[0]}.")
        order = self._find_owner(worker, namespace=info.namespace, name=info.ownerName, uid=info.uid)
        self.agent.note_status(order.key, is_running=info.status == "running", detail=info.detail)
        task_info = info.taskInfo if info.taskInfo is not None else info.ownerInfo
        if task_info is not None:
            self._report(order, info.status, task_info)
        return JSONResponse(OK)

    async def sample(self, request: Request) -> Response:
        """Forwards a hard sample unchanged. The query may name its service: namespace, ownerName, uid."""
        body = await read_whole_body(request, MAX_PICTURE_BYTES + MAX_SAMPLE_BYTES + (16 << 10), "A sample")
        content_type = request.headers.get("content-type", "")
        limits = {"sample": MAX_SAMPLE_BYTES, "picture": MAX_PICTURE_BYTES}
        parts = parts_in(content_type, body, limits, hint=HINT)
        if set(parts) != {"sample", "picture"}:
            raise BadRequest("A sample is a part sample, JSON, and a part picture.")
        if parts["picture"].content_type not in ("image/jpeg", "image/png"):
            raise BadRequest("The picture must be image/jpeg or image/png.")
        try:
            Sample.from_json(json_of(parts["sample"], "sample"))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BadRequest(f"The part sample cannot be read: {type(error).__name__}: {error}.") from None
        order = self._find_named(request)
        slot = next(self._numbers) % KEPT_SAMPLES
        self.agent.send(self._path(order, "samples"), body, content_type, replaces=f"sample/{order.key.uid}/{slot}")
        return JSONResponse(OK)

    async def rows(self, request: Request) -> Response:
        """Forwards rows of answers unchanged. The query names their service as for a sample."""
        body = await read_whole_body(request, MAX_ROWS_BYTES, "Rows")
        order = self._find_named(request)
        self.agent.send(self._path(order, "rows"), body, "application/json", rows_of=order.key.uid)
        return JSONResponse(OK)

    def _path(self, order: Order, what: str) -> str:
        """Returns the path of the web."""
        return f"/neptune/link/{quote(self.agent.node)}/{PLURAL}/{quote(order.key.uid)}/{what}"

    def _find_named(self, request: Request) -> Order:
        """Returns the order of the worker in the path and the service in the query.

        Raises:
            UnknownWorker: There is none.
        """
        query = request.query_params
        return self._find_owner(
            request.path_params["worker"],
            namespace=query.get("namespace", ""),
            name=query.get("ownerName", ""),
            uid=query.get("uid", ""),
        )

    def _report(self, order: Order, status: str, task_info: Mapping[str, Any]) -> None:
        body = {
            "phase": "inference",
            "status": status,
            "uid": order.key.uid,
            "output": {"models": [], "taskInfo": task_info},
        }
        path = f"/{quote(order.namespace)}/neptune/upstream/{PLURAL}/{quote(order.name)}/status"
        self.agent.send(path, json.dumps(body).encode(), "application/json", replaces=f"status/{order.key.uid}")

    def _find_owner(self, worker: str, *, namespace: str, name: str, uid: str) -> Order:
        """Returns the order of a worker.

        Args:
            name: of its service.
            uid: of its service, as several may have such a worker.

        Raises:
            UnknownWorker: There is none.
        """
        if not name:
            owner = self.agent.owner_of(PLURAL, worker)
            orders = [owner] if owner is not None else []
        else:
            orders = self.agent.find(PLURAL, namespace, name)
        for order in orders:
            is_same = self.name_of(order) == worker and uid in ("", order.key.uid)
            if is_same and order.operation is not Operation.DELETE:
                return order
        raise UnknownWorker(f"No service of this node has a worker {worker}.")

    def _make_orders(self, namespace: str, name: str, resource: JsonObject, operation: Operation) -> list[Order]:
        """Returns an order for each worker that runs here. The web's choice of the model and of the cloud's address
        stays."""
        current = {order.key.part: order for order in self.agent.find(PLURAL, namespace, name)}
        if operation is Operation.DELETE:
            return [_change_order(order, operation, order.content) for order in current.values()]
        parts = [role.value for role in Role if _node_of(resource, role) == self.agent.node]
        if not parts:
            raise BadRequest(f"Neither worker of this service is for the node {self.agent.node}.")
        uid = str(resource["metadata"].get("uid") or uuid.uuid5(uuid.NAMESPACE_URL, f"{PLURAL}/{namespace}/{name}"))
        if len(uid) > 36 or "/" in uid:
            raise BadRequest("metadata.uid must have at most 36 characters and no slash.")
        generation = resource["metadata"].get("generation")
        template = Order(
            seq=0,
            node=self.agent.node,
            key=WorkKey(PLURAL, uid, ""),
            namespace=namespace,
            name=name,
            operation=operation,
            generation=generation if isinstance(generation, int) else 1,
            content={},
        )
        return [_order(template, part, current.get(part), _trim(resource)) for part in parts]


def _describe_worker(report: WorkerReport) -> dict[str, str]:
    return {
        "uid": report.key.uid,
        "role": report.key.part,
        "worker": report.name,
        "state": report.state.value.lower(),
        "message": report.message,
        "url": report.url,
    }


def _order(template: Order, part: str, current: Order | None, resource: JsonObject) -> Order:
    if current is not None:
        old = current.content.get("resource") or {}
        metadata = {**(old.get("metadata") or {}), **resource["metadata"]}
        metadata["uid"] = current.key.uid
        return _change_order(
            current, template.operation, {**current.content, "resource": {**resource, "metadata": metadata}}
        )
    key = WorkKey(template.key.kind, template.key.uid, part)
    content = {"role": part, "resource": {**resource, "metadata": {**resource["metadata"], "uid": key.uid}}}
    return Order(**{**vars(template), "key": key, "content": content})


def _change_order(order: Order, operation: Operation, content: Mapping[str, Any]) -> Order:
    """Returns a changed order with seq 0, since it is not from the web."""
    return Order(**{**vars(order), "seq": 0, "operation": operation, "content": content, "is_acknowledged": False})


def _trim(resource: Mapping[str, Any]) -> JsonObject:
    """Removes the status and what Kubernetes adds, as in the web's orders."""
    metadata = resource["metadata"]
    trimmed = {name: metadata[name] for name in ("name", "namespace", "uid", "generation") if name in metadata}
    return {
        **{name: resource[name] for name in ("apiVersion", "kind", "spec") if name in resource},
        "metadata": trimmed,
    }


def _node_of(resource: Mapping[str, Any], role: Role) -> Any:
    spec = resource.get("spec")
    worker = spec.get(f"{role.value}Worker") if isinstance(spec, dict) else None
    if not isinstance(worker, dict) or not isinstance(worker.get("name"), str):
        raise BadRequest(f"spec.{role.value}Worker must be given, with a name.")
    return worker.get("nodeName")


def _check_agreement(metadata: Any, what: str, path: str) -> None:
    value = metadata.get(what) if isinstance(metadata, dict) else None
    if value != path:
        raise BadRequest(f"metadata.{what} is {str(value)[:80]!r}, and the path says {path!r}.")


def _read_object(body: bytes) -> JsonObject:
    try:
        return read_object(body)
    except UnreadableJson:
        raise BadRequest("The body must be a JSON object, the service as the Kubernetes API has it.") from None
