"""A table of routes below the place of each producer of a kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.web.operations import OpenApiSchema, Operations
from app.results.access import ProducerOf

PARAMETERS: dict[str, OpenApiSchema] = {
    "sink_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    "event_id": {"type": "string", "pattern": "^[1-9][0-9]{0,9}$"},
}


class ProducerOperations(Operations):
    """Operations whose endpoints take the producer in the path besides the request.

    Args:
        kind: what the names of the routes start with.
        one: the path of one producer.
        parameters: the schemas of its path's parameters.
        producer_of: finds it for the user who asks.
    """

    def __init__(self, kind: str, one: str, parameters: Mapping[str, OpenApiSchema], producer_of: ProducerOf) -> None:
        super().__init__({**parameters, **PARAMETERS})
        self.kind = kind
        self.one = one
        self.producer_of = producer_of

    def given(self, endpoint: Callable[..., Response]) -> Any:
        """The endpoint with the producer, in a thread."""

        @wraps(endpoint)
        def answered(request: Request) -> Response:
            return endpoint(request, self.producer_of(request))

        answered.__name__ = f"{self.kind}_{endpoint.__name__}"
        return answered

    def given_later(self, endpoint: Callable[..., Awaitable[Response]]) -> Any:
        """The same of one that reads a body."""

        @wraps(endpoint)
        async def answered(request: Request) -> Response:
            return await endpoint(request, await run_in_threadpool(self.producer_of, request))

        answered.__name__ = f"{self.kind}_{endpoint.__name__}"
        return answered
