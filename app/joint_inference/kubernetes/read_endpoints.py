"""GET of one service and of many."""

from __future__ import annotations

import base64
import json

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.joint_inference.access import joint_of
from app.joint_inference.kubernetes.groups import group_of
from app.joint_inference.kubernetes.representations import speaks_status, table_of
from app.joint_inference.kubernetes.requests import number_of, selector_of, wants_table
from app.joint_inference.kubernetes.watch import watch
from app.joint_inference.model.resource import LIST_KIND, Service
from app.kit.clock import now
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import read_json
from app.kit.web.auth import user_of

MOST = 10_000
INCLUDE = ("None", "Metadata", "Object")


@speaks_status
async def list_services(request: Request) -> Response:
    """Of the namespace in the path, or of all. With watch=true their changes."""
    query = request.query_params
    if query.get("watch", "").lower() in ("true", "1"):
        return await watch(request)
    selector = selector_of(query)
    limit = number_of(query, "limit", default=0, most=MOST) or MOST
    after = _read_token(query.get("continue", ""))
    services, user = joint_of(request).services, user_of(request)
    namespace = request.path_params.get("namespace")
    every, version = await run_in_threadpool(lambda: services.all(user, namespace=namespace))
    matching = [service for service in every if selector.takes(service) and _place(service) > after]
    metadata: JsonObject = {"resourceVersion": str(version)}
    if len(matching) > limit:
        metadata["continue"] = _write_token(matching[limit - 1])
        if not query.get("labelSelector") and not query.get("fieldSelector"):
            metadata["remainingItemCount"] = len(matching) - limit
    group = group_of(request)
    items = [group.present(service.to_resource()) for service in matching[:limit]]
    if wants_table(request.headers.get("accept", "")):
        return JSONResponse(table_of(items, metadata, now=now(), include=include_of(request)))
    return JSONResponse({"kind": LIST_KIND, "apiVersion": group.api_version, "metadata": metadata, "items": items})


@speaks_status
async def get_service(request: Request) -> Response:
    """Also …/status: the whole, as Kubernetes answers it."""
    services, user = joint_of(request).services, user_of(request)
    place = request.path_params
    service = await run_in_threadpool(lambda: services.get(user, place["namespace"], place["name"]))
    return answer_service(request, service)


def answer_service(request: Request, service: Service, *, status: int = 200) -> Response:
    """One service, as a table if that is wanted."""
    resource = group_of(request).present(service.to_resource())
    if not wants_table(request.headers.get("accept", "")):
        return JSONResponse(resource, status_code=status)
    metadata = {"resourceVersion": resource["metadata"]["resourceVersion"]}
    return JSONResponse(table_of([resource], metadata, now=now(), include=include_of(request)), status_code=status)


def include_of(request: Request) -> str:
    include = request.query_params.get("includeObject") or "Metadata"
    if include not in INCLUDE:
        raise BadRequest(f"includeObject is one of {', '.join(INCLUDE)}.")
    return include


def _place(service: Service) -> tuple[str, str]:
    return service.namespace, service.name


def _write_token(last: Service) -> str:
    return base64.urlsafe_b64encode(json.dumps(_place(last)).encode()).decode()


def _read_token(token: str) -> tuple[str, str]:
    if not token:
        return ("", "")
    try:
        namespace, name = read_json(base64.urlsafe_b64decode(token.encode()))
        return str(namespace), str(name)
    except (ValueError, TypeError):
        raise BadRequest("continue is no token of this server.", hint="Begin the list anew.") from None
