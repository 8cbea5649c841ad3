"""PATCH of one service: a JSON merge patch, a JSON patch, or the fields of `kubectl apply --server-side`."""

from __future__ import annotations

import json
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.joint_inference.access import joint_of
from app.joint_inference.errors import ServiceNotFound
from app.joint_inference.kubernetes.groups import group_of
from app.joint_inference.kubernetes.read_endpoints import answer_service
from app.joint_inference.kubernetes.representations import add_warnings, speaks_status
from app.joint_inference.kubernetes.requests import (
    APPLY,
    JSON_PATCH,
    MERGE,
    UnknownPatch,
    body_of,
    check_kind,
    content_type,
    warnings_for,
    warnings_for_fields,
    write_options,
)
from app.joint_inference.kubernetes.write_endpoints import (
    check_place,
    check_uid,
    check_version,
    created,
    metadata_of,
    try_change,
)
from app.joint_inference.model import field_ownership
from app.joint_inference.model.field_ownership import Manager
from app.joint_inference.model.resource import Service
from app.joint_inference.service.changes import patched
from app.joint_inference.service.services import ResourceEdit
from app.joint_inference.validation import select_known_fields
from app.kit.clock import now, to_text
from app.kit.errors import BadInput, BadRequest
from app.kit.web.auth import user_of


@speaks_status
async def patch_service(request: Request) -> Response:
    kind = content_type(request)
    if kind not in PATCHES:
        raise UnknownPatch(
            f"The patch is {kind[:100]!r}.", hint=f"Send {MERGE} or {JSON_PATCH}: kubectl patch --type=merge or json."
        )
    patch = await body_of(request)
    return await run_in_threadpool(PATCHES[kind], request, patch)


def _answer_merge(request: Request, patch: Any) -> Response:
    if not isinstance(patch, dict):
        raise BadRequest("A merge patch is an object.")

    def edit(before: Service) -> tuple[Any, None]:
        return patched(group_of(request).present(before.to_resource()), patch), None

    return _answer_change(request, edit, Manager(write_options(request).manager))


def _answer_patch(request: Request, operations: Any) -> Response:
    def edit(before: Service) -> tuple[Any, Any]:
        whole = group_of(request).present(before.to_resource())
        after = patch_resource(whole, operations)
        managed = metadata_of(after).get("managedFields")
        is_other = managed != whole["metadata"].get("managedFields")
        return after, check_managed(managed) if is_other else None

    return _answer_change(request, edit, Manager(write_options(request).manager))


def _answer_apply(request: Request, resource: Any) -> Response:
    """Creates the service, or changes the fields that the body names, and those that its manager named before but no
    longer does."""
    check_kind(request, resource)
    writing, place = write_options(request), request.path_params
    check_place(resource, place["namespace"], place["name"])
    manager, at = Manager(writing.manager, field_ownership.APPLY), to_text(now())
    try:
        joint_of(request).services.get(user_of(request), place["namespace"], place["name"])
    except ServiceNotFound:
        return created(request, resource, field_ownership.APPLY)

    def edit(before: Service) -> tuple[Any, Any]:
        check_version(before, resource)
        check_uid(before, resource)
        return field_ownership.merge_apply(
            before.managed, before.to_resource(), select_known_fields(resource), manager, at, force=writing.is_forced
        )

    return _answer_change(request, edit, manager, warnings_for_fields(resource, writing))


def _answer_change(request: Request, edit: ResourceEdit, by: Manager, warnings: list[str] | None = None) -> Response:
    """warnings: instead of those about what it becomes, of which a part may not be the caller's."""
    writing, place = write_options(request), request.path_params
    services, user = joint_of(request).services, user_of(request)
    before = services.get(user, place["namespace"], place["name"])
    resource, _ = edit(before)
    if warnings is None:
        check_kind(request, resource)
    check_place(resource, before.namespace, before.name)
    check_uid(before, resource)
    messages = warnings_for(resource, writing) if warnings is None else warnings
    if writing.is_dry:
        return add_warnings(
            JSONResponse(group_of(request).present(try_change(services, user, before, resource))), messages
        )
    service = services.change(user, before.namespace, before.name, edit, now=now(), by=by)
    return add_warnings(answer_service(request, service), messages)


PATCHES = {MERGE: _answer_merge, JSON_PATCH: _answer_patch, APPLY: _answer_apply}


MAX_OPERATIONS = 1000
MAX_BYTES = 1 << 20
GROWS = "copy"
SHARE = {"manager": str, "operation": str, "time": str, "fieldsV1": dict}


def patch_resource(resource: Any, operations: Any) -> Any:
    """Returns the patched resource without changing the original.

    Raises:
        BadRequest: The patch is not valid.
        BadInput: It does not fit the resource.
    """
    if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
        raise BadRequest("A JSON patch is a list of operations.")
    if len(operations) > MAX_OPERATIONS:
        raise BadRequest(f"A patch may have {MAX_OPERATIONS} operations.")
    import jsonpatch
    from jsonpointer import JsonPointerException

    result = resource
    try:
        for item in operations:
            result = jsonpatch.apply_patch(result, [item])
            if item.get("op") == GROWS and len(json.dumps(result)) > MAX_BYTES:
                raise BadInput(f"The patch makes more than {MAX_BYTES} bytes of it.")
    except jsonpatch.InvalidJsonPatch as error:
        raise BadRequest(f"This is no JSON patch: {error}.") from None
    except (jsonpatch.JsonPatchException, JsonPointerException) as error:
        raise BadInput(f"The patch does not fit the service: {error}.", hint="Read it again.") from None
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise BadRequest(f"This is no JSON patch: {type(error).__name__}: {error}.") from None
    return result


def check_managed(managed: Any) -> list[Any]:
    """Returns metadata.managedFields as a tool has rewritten them, as kubectl does when it switches to server-side
    apply.

    Raises:
        BadInput: They are not valid.
    """
    for item in managed or ():
        if not isinstance(item, dict) or not all(isinstance(item.get(key), kind) for key, kind in SHARE.items()):
            raise BadInput("metadata.managedFields are to be a list of managers with their fields.")
        if not _is_tree(item["fieldsV1"]):
            raise BadInput("fieldsV1 of metadata.managedFields are to be objects in objects.")
    return list(managed or ())


def _is_tree(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_tree, value.values()))
