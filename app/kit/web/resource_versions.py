"""Versions of resources: GET answers an ETag, and the PUT, PATCH and DELETE of the same path honor If-Match.

The version of a resource is a hash of what its GET answers, or of the fields that the GET declares as `version_fields`:
figures that change by themselves, such as progress, must not make a change fail. Endpoints need no code of their own.

Two conditional changes of one resource never run at once, so that only one of two that name the same version succeeds.
A change without If-Match is not held up: it may come between the comparison and the change of another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce, wraps
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.kit.errors import NotFound, Unavailable
from app.kit.web.conditions import IF_MATCH, TAGS, require_match
from app.kit.web.idempotency import call, kept_answers_of
from app.kit.web.operations import Operation, is_model
from app.kit.web.request_lease import hold_for_request

CHANGES = ("PUT", "PATCH", "DELETE")
ETAG = {"ETag": "version of the resource, for If-Match"}
WAIT_S = 10.0
"""How long a conditional change waits for another of the same resource."""


class ChangeInProgress(Unavailable, code="CHANGE_IN_PROGRESS"):
    """Another conditional change of this resource has not ended within the wait."""


def with_versions(operations: Iterable[Operation]) -> list[Operation]:
    """Returns the operations, with versions for each resource that one path reads and changes.

    Left out are resources with an ETag of their own, such as files, and those whose GET has other query parameters
    than the change: it reads something else.
    """
    operations = list(operations)
    reads = {each.path: each for each in operations if each.method == "GET" and is_model(each.answers.get(200))}
    changes = {id(each): reads[each.path] for each in operations if _can_be_conditional(each, reads.get(each.path))}
    versioned = {id(read) for read in changes.values()}

    def convert(operation: Operation) -> Operation:
        if id(operation) in changes:
            return _make_conditional(operation, changes[id(operation)])
        return _make_versioned(operation) if id(operation) in versioned else operation

    return [convert(each) for each in operations]


def _can_be_conditional(change: Operation, read: Operation | None) -> bool:
    if read is None or change.method not in CHANGES or IF_MATCH in change.sent_headers:
        return False
    return read.query in (None, change.query)


def _make_versioned(read: Operation) -> Operation:
    endpoint = _with_etag(read.endpoint, read.version_fields)
    return replace(read, endpoint=endpoint, headers={**read.headers, **ETAG})


def _make_conditional(change: Operation, read: Operation) -> Operation:
    answers_resource = change.answers.get(200) is read.answers[200]
    endpoint = _with_etag(change.endpoint, read.version_fields) if answers_resource else change.endpoint
    return replace(
        change,
        endpoint=_with_condition(endpoint, read),
        headers={**change.headers, **(ETAG if answers_resource else {})},
        sent_headers={**change.sent_headers, IF_MATCH: TAGS},
        errors=(*change.errors, 412, 503),
    )


def _with_etag(endpoint: Callable[[Request], Any], fields: tuple[str, ...]) -> Callable[[Request], Any]:
    @wraps(endpoint)
    async def answered(request: Request) -> Response:
        response = await call(endpoint, request)
        if response.status_code == 200:
            response.headers["ETag"] = f'"{_hash_answer(response, fields)}"'
        return response

    return answered


def _with_condition(endpoint: Callable[[Request], Any], read: Operation) -> Callable[[Request], Any]:
    @wraps(endpoint)
    async def changed(request: Request) -> Response:
        if IF_MATCH not in request.headers:
            return await call(endpoint, request)
        query = request.url.query if read.query is not None else ""  # of the change alone, it names no other resource
        lease = kept_answers_of(request).lease(f"version:{request.url.path}?{query}")
        async with hold_for_request(lease, wait_s=WAIT_S) as is_ours:
            if not is_ours:
                raise ChangeInProgress("Another change of this is in progress.", hint="Try again in a moment.")
            try:
                etag = _hash_answer(await call(read.endpoint, request), read.version_fields)
            except NotFound:
                etag = None
            require_match(request, etag)
            return await call(endpoint, request)

    return changed


def _hash_answer(response: Response, fields: tuple[str, ...]) -> str:
    """Hash of these fields of a JSON answer; of all of them if none are given."""
    answer = json.loads(bytes(response.body))
    versioned = [_find_field(answer, name) for name in fields] if fields else answer
    return hashlib.sha256(json.dumps(versioned, sort_keys=True).encode()).hexdigest()


def _find_field(answer: Any, name: str) -> Any:
    """name: with dots for a field within a field, as in resource.spec."""
    return reduce(lambda part, key: part[key], name.split("."), answer)
