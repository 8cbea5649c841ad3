"""GET with watch=true: the changes of services as lines of JSON, until the requested time is over or the server ends.

A service that changed between the watched version and now is reported as added, because it is not stored which version
a client started with. Kubernetes' clients treat that as a change.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.joint_inference.access import joint_of
from app.joint_inference.kubernetes.groups import NEPTUNE, ApiGroup, group_of
from app.joint_inference.kubernetes.representations import table_of
from app.joint_inference.kubernetes.requests import Selector, number_of, selector_of, wants_table
from app.joint_inference.model.resource import KIND, Service
from app.joint_inference.service import Services
from app.kit.clock import now
from app.kit.errors import BadRequest
from app.kit.redis.change_hub import ChangeHub, changed
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import authenticator_of, caller_of, user_of
from app.kit.web.sse import hub_of

NUDGED = "joint"
LOOK_AGAIN_S = 1.0
MIN_GAP_S = 0.05
BOOKMARK_S = 60.0
ALLOWED_AGAIN_S = 3.0
LONGEST_S = 3600
SEND_TIMEOUT_S = 30
SHUTDOWN_GRACE_S = 1.0
INITIAL_END = {"k8s.io/initial-events-end": "true"}


class Expired(BadRequest, status=410, code="VERSION_EXPIRED"):
    """This server did not give out the version, so the list has to be read again."""


@dataclass
class WatchStream:
    """One client's view."""

    services: Services
    user: str
    namespace: str | None
    selector: Selector
    shown: set[str] = field(default_factory=set)
    """Uids of the services that it knows."""
    seen: int = 0
    """The newest version that was sent to it."""

    def begin(self, after: int) -> list[tuple[str, Service]]:
        """Returns what is sent first.

        Args:
            after: the version that the client has read; 0 for none: it gets everything.

        Raises:
            Expired: The changes since then are no longer known.
        """
        every, version = self.services.all(self.user, namespace=self.namespace)
        if after > version:
            raise Expired(f"There is no version {after} here.", hint="Read the list again.")
        self.seen = after or version
        services = [service for service in every if self.selector.takes(service)]
        if after:
            self.shown = {service.uid for service in services if service.version <= after}
            return self.news()
        self.shown = {service.uid for service in services}
        return [("ADDED", service) for service in services]

    def news(self) -> list[tuple[str, Service]]:
        """Returns the changes since the last call, in the client's view."""
        changes = self.services.changes(self.user, self.seen, namespace=self.namespace)
        if changes:
            self.seen = max(self.seen, changes[-1].version)
        return [(kind, service) for service in changes for kind in self._iterate_kinds(service)]

    def _iterate_kinds(self, service: Service) -> Iterator[str]:
        is_known = service.uid in self.shown
        if service.gone_at is not None or not self.selector.takes(service):
            self.shown.discard(service.uid)
            if is_known or (service.gone_at is not None and self.selector.takes(service)):
                yield "DELETED"
        else:
            self.shown.add(service.uid)
            yield "MODIFIED" if is_known else "ADDED"


@dataclass(frozen=True)
class WatchRequest:
    """How the client wants changes to be sent."""

    seconds: float
    is_table: bool
    include: str
    """The content of a table's row: None, Metadata, Object."""
    bookmarks: bool
    initial_end: bool
    group: ApiGroup = NEPTUNE

    def line(self, kind: str, service: Service) -> bytes:
        resource = self.group.present(service.to_resource())
        if self.is_table:
            metadata = {"resourceVersion": resource["metadata"]["resourceVersion"]}
            resource = table_of([resource], metadata, now=now(), include=self.include)
        return _write_line(kind, resource)


async def watch(request: Request) -> Response:
    """Sends changes.

    Raises:
        BadRequest: The request is not valid.
        Expired: The version is not known.
    """
    query = request.query_params
    view = WatchStream(
        joint_of(request).services, user_of(request), request.path_params.get("namespace"), selector_of(query)
    )
    wish = WatchRequest(
        seconds=number_of(query, "timeoutSeconds", default=LONGEST_S, most=LONGEST_S) or LONGEST_S,
        is_table=wants_table(request.headers.get("accept", "")),
        include=query.get("includeObject") or "Metadata",
        bookmarks=query.get("allowWatchBookmarks", "").lower() in ("true", "1"),
        initial_end=query.get("sendInitialEvents", "").lower() in ("true", "1"),
        group=group_of(request),
    )
    after = number_of(query, "resourceVersion", default=0, most=1 << 62)
    first = await run_in_threadpool(view.begin, 0 if wish.initial_end else after)
    hub: ChangeHub = hub_of(request)
    return EventSourceResponse(
        _stream_lines(request, hub, view, wish, first),
        media_type="application/json",
        ping=0,
        send_timeout=SEND_TIMEOUT_S,
        shutdown_event=hub,  # type: ignore[arg-type]  # it has what is used of an event
        shutdown_grace_period=SHUTDOWN_GRACE_S,
    )


async def _stream_lines(
    request: Request, hub: ChangeHub, view: WatchStream, wish: WatchRequest, first: list[tuple[str, Service]]
) -> AsyncIterator[bytes]:
    for kind, service in first:
        yield wish.line(kind, service)
    if wish.initial_end:
        yield _write_bookmark(wish.group, view.seen, INITIAL_END)
    begin = bookmarked = allowed = time.monotonic()
    with hub.watch(NUDGED) as flag:
        while not hub.is_ending and time.monotonic() - begin < wish.seconds:
            for kind, service in await run_in_threadpool(view.news):
                yield wish.line(kind, service)
            if wish.bookmarks and time.monotonic() - bookmarked > BOOKMARK_S:
                bookmarked = time.monotonic()
                yield _write_bookmark(wish.group, view.seen, {})
            if time.monotonic() - allowed > ALLOWED_AGAIN_S:
                allowed = time.monotonic()
                if not await _may_go_on(request):
                    return
            await asyncio.sleep(MIN_GAP_S)
            await changed(flag, min(LOOK_AGAIN_S, max(0.0, wish.seconds - (time.monotonic() - begin))))


async def _may_go_on(request: Request) -> bool:
    """Returns whether the caller is still authorized; a token that was revoked ends its watches."""
    if not caller_of(request).token_id:
        return True
    return bool(await run_in_threadpool(authenticator_of(request).still_holds, request))


def _write_bookmark(group: ApiGroup, version: int, annotations: dict[str, str]) -> bytes:
    metadata: JsonObject = {"resourceVersion": str(version), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    return _write_line("BOOKMARK", {"kind": KIND, "apiVersion": group.api_version, "metadata": metadata})


def _write_line(kind: str, document: JsonObject) -> bytes:
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"
