"""GET and POST /api/v1/toys, their page, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.bootstrap.container import container_of
from app.kit.sql import Database
from app.kit.web.operations import Operations
from tests.harness.toy import store

OPERATIONS = Operations()


@OPERATIONS.get("/api/v1/toys", "How many toys are there?", ("application/json",), errors=())
def count(request: Request) -> Response:
    with container_of(request).database.read() as conn:
        return JSONResponse({"toys": store.count(conn)})


@OPERATIONS.post("/api/v1/toys", "One more.", {202: None}, errors=())
def put(request: Request) -> Response:
    container_of(request).waker.send(store.ToyMessage.PUT_TOY, name=request.query_params["name"])
    return Response(status_code=202)


def page(_: Request) -> Response:
    return PlainTextResponse("All toys")


class ToyCollector(Collector):
    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterable[Metric]:
        with self._database.read() as conn:
            yield GaugeMetricFamily("modelmill_toys", "Toys.", value=store.count(conn))


PAGES = [Route("/ui/toys", page)]
