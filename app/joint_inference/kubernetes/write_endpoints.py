"""POST, PUT, PATCH and DELETE of one service, and of its status. They check the request against its path and the
existing service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.joint_inference.access import joint_of
from app.joint_inference.errors import ServiceChanged, ServiceExists, ServiceNotFound
from app.joint_inference.kubernetes.groups import group_of
from app.joint_inference.kubernetes.read_endpoints import answer_service
from app.joint_inference.kubernetes.representations import add_warnings, failure, speaks_status
from app.joint_inference.kubernetes.requests import (
    APPLY,
    MERGE,
    UnknownPatch,
    body_of,
    check_kind,
    content_type,
    warnings_for,
    write_options,
)
from app.joint_inference.model.field_ownership import UPDATE, Manager, check_status
from app.joint_inference.model.resource import API_VERSION, KIND, Service
from app.joint_inference.service import Services
from app.joint_inference.validation import validate, validate_status
from app.kit.clock import now
from app.kit.errors import BadRequest, ModelmillError
from app.kit.text.json_values import JsonObject
from app.kit.text.merge_patch import merge_patch
from app.kit.web.auth import user_of
from app.kit.web.idempotency import once


@speaks_status
@once
async def create_service(request: Request) -> Response:
    return await answer_post(request, created)


async def answer_post(request: Request, create: Callable[[Request, Any], Response]) -> Response:
    """Answers by what `create` returns for the body; an error names the resource as the body does, since no name is in
    the path."""
    resource = await body_of(request)
    try:
        return await run_in_threadpool(create, request, resource)
    except ModelmillError as error:
        return failure(error, read_body_name(resource), group_of(request))


def created(request: Request, resource: Any, operation: str = UPDATE) -> Response:
    writing, user = write_options(request), user_of(request)
    check_kind(request, resource)
    namespace = request.path_params.get("namespace")
    check_place(resource, namespace, "")
    warnings = warnings_for(resource, writing)
    services = joint_of(request).services
    if writing.is_dry:
        resource = group_of(request).present(_try_create(services, user, resource, namespace))
        return add_warnings(JSONResponse(resource, status_code=201), warnings)
    service = services.create(user, resource, now=now(), namespace=namespace, by=Manager(writing.manager, operation))
    return add_warnings(answer_service(request, service, status=201), warnings)


def _try_create(services: Services, user: str, resource: Any, namespace: str | None) -> JsonObject:
    """Returns what would be created."""
    fit = validate(resource, namespace=namespace)
    place = fit["metadata"]
    try:
        services.get(user, place["namespace"], place["name"])
    except ServiceNotFound:
        services.check_models(user, fit["spec"])
        return fit
    raise ServiceExists(f"There is a service {place['name']!r} already.")


def try_change(services: Services, user: str, before: Service, resource: Any) -> JsonObject:
    """What a service would be after a change; nothing is stored.

    Args:
        resource: as its user sent it, any JSON value.

    Raises:
        ServiceChanged: It names another version than the present one.
        InvalidResource: It breaks the schema, or the models do not go together.
    """
    after = apply_change(before, resource)
    if after["spec"] != before.spec:
        services.check_models(user, after["spec"])
    return after


@speaks_status
async def replace_service(request: Request) -> Response:
    resource = await body_of(request)
    return await run_in_threadpool(_answer_replace, request, resource)


def _answer_replace(request: Request, resource: Any) -> Response:
    check_kind(request, resource)
    writing, place = write_options(request), request.path_params
    check_place(resource, place["namespace"], place["name"])
    warnings = warnings_for(resource, writing)
    services, user = joint_of(request).services, user_of(request)
    before = services.get(user, place["namespace"], place["name"])
    check_uid(before, resource)
    if writing.is_dry:
        return add_warnings(
            JSONResponse(group_of(request).present(try_change(services, user, before, resource))), warnings
        )
    service = services.replace(user, before.namespace, before.name, resource, now=now(), by=Manager(writing.manager))
    return add_warnings(answer_service(request, service), warnings)


@speaks_status
async def delete_service(request: Request) -> Response:
    """With preconditions, if any. It is there until its workers have ended."""
    options = await body_of(request)
    return await run_in_threadpool(_answer_delete, request, options if isinstance(options, dict) else {})


def _answer_delete(request: Request, options: JsonObject) -> Response:
    services, user, place = joint_of(request).services, user_of(request), request.path_params
    before = services.get(user, place["namespace"], place["name"])
    preconditions = options.get("preconditions")
    if isinstance(preconditions, dict):
        check_uid(before, {"metadata": preconditions})
        check_version(before, {"metadata": preconditions})
    is_dry = write_options(request).is_dry or options.get("dryRun") == ["All"]
    if not is_dry:
        before = services.delete(user, before.namespace, before.name, now=now())
    return answer_service(request, before)


@speaks_status
async def put_status(request: Request) -> Response:
    """PUT and PATCH of …/status. Nothing but the status is taken."""
    if request.method == "PATCH" and content_type(request) not in (MERGE, APPLY):
        raise UnknownPatch("A status is patched by a merge patch or applied.", hint=f"Send {MERGE} or {APPLY}.")
    body = await body_of(request)
    if not isinstance(body, dict):
        raise BadRequest("The body is no resource.")
    return await run_in_threadpool(_answer_status_put, request, body)


def _answer_status_put(request: Request, body: JsonObject) -> Response:
    services, user, place = joint_of(request).services, user_of(request), request.path_params
    before, writing = services.get(user, place["namespace"], place["name"]), write_options(request)
    if request.method == "PUT" or content_type(request) == APPLY:
        check_kind(request, body)
        check_place(body, before.namespace, before.name)
    if content_type(request) == APPLY:
        check_status(before.status, validate_status(body.get("status") or {}), force=writing.is_forced)
    if request.method == "PATCH":
        body = {"metadata": metadata_of(body), "status": merge_patch(before.status, body.get("status", {}))}
    check_uid(before, body)
    check_version(before, body)
    status = validate_status(body.get("status") or {})
    if not writing.is_dry:
        before = services.put_status(user, before.namespace, before.name, status, now=now())
    return answer_service(request, before)


def read_body_name(resource: Any) -> str:
    name = metadata_of(resource).get("name")
    return name if isinstance(name, str) else ""


def apply_change(before: Service, resource: Any) -> JsonObject:
    """Returns the resource as the change would make it.

    Raises:
        ServiceChanged: Another change was faster.
        InvalidResource: The resource has problems.
    """
    check_version(before, resource)
    fit = validate(resource, namespace=before.namespace)
    whole = before.to_resource()
    about = {key: fit["metadata"][key] for key in ("labels", "annotations") if fit["metadata"].get(key)}
    unchanged = {key: value for key, value in whole["metadata"].items() if key not in ("labels", "annotations")}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {**unchanged, **about},
        "spec": fit["spec"],
        "status": whole["status"],
    }


def metadata_of(resource: Any) -> JsonObject:
    metadata = resource.get("metadata") if isinstance(resource, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def check_place(resource: Any, namespace: str | None, name: str) -> None:
    """Checks that resource and path name the same.

    Raises:
        BadRequest: They do not.
    """
    metadata = metadata_of(resource)
    if namespace is not None and metadata.get("namespace") not in (None, "", namespace):
        raise BadRequest("The namespace of the provided object does not match the namespace sent on the request.")
    if name and metadata.get("name") != name:
        name_text = str(metadata.get("name", ""))[:253]
        raise BadRequest(f"The name of the object ({name_text}) does not match the name on the URL ({name}).")


def check_uid(before: Service, resource: Any) -> None:
    """Checks that this is the service that the caller means.

    Raises:
        ServiceChanged: Another one has its name by now.
    """
    uid = metadata_of(resource).get("uid")
    if uid and uid != before.uid:
        raise ServiceChanged(f"Its uid is {before.uid}.", hint="There is another of this name now.")


def check_version(before: Service, resource: Any) -> None:
    version = metadata_of(resource).get("resourceVersion")
    if version and version != str(before.version):
        raise ServiceChanged("It has been changed meanwhile.", hint="Read it again.")
