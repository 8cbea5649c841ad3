"""The endpoints of rows, rules and sinks below the place of a producer: `operations` makes the table of a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.kit.clock import now
from app.kit.text.attachment import attachment
from app.kit.web.http import json_answer, json_body, query
from app.kit.web.operations import OpenApiSchema, Operations
from app.results import schemas
from app.results.access import ProducerOf, results_of
from app.results.exports import FORMS, ExportForm
from app.results.model.producer import Producer
from app.results.producer_operations import ProducerOperations
from app.results.rule_endpoints import add_rule_operations
from app.results.service import ResultPage


def list_rows(request: Request, producer: Producer) -> Response:
    criteria = query(request, schemas.RowPageQuery)
    page = results_of(request).rows.page(
        producer,
        schemas.filter_of(criteria),
        cursor=criteria.cursor,
        newest_first=criteria.order == "desc",
        limit=criteria.limit,
    )
    return json_answer(rows(page))


def export(form: ExportForm) -> Callable[[Request, Producer], Response]:
    """The endpoint that gives rows as a file."""

    def endpoint(request: Request, producer: Producer) -> Response:
        criteria = query(request, schemas.RowQuery)
        form.check()
        records = results_of(request).rows.all(producer, schemas.filter_of(criteria))
        headers = {"Content-Disposition": attachment(f"{producer.uid}.{form.ending}")}
        return StreamingResponse(form.write(records), media_type=form.media_type, headers=headers)

    endpoint.__name__ = f"rows_as_{form.ending}"
    return endpoint


def list_sinks(request: Request, producer: Producer) -> Response:
    sinks = results_of(request).sinks.of(producer)
    return json_answer(schemas.SinksAnswer(sinks=[schemas.sink_answer(sink) for sink in sinks]))


async def add_sink(request: Request, producer: Producer) -> Response:
    body = await json_body(request, schemas.SinkBody)
    add = partial(results_of(request).sinks.add, sent_by=body.sent_by, now=now())
    sink = await run_in_threadpool(add, producer, body.kind, body.content, body.address)
    return json_answer(schemas.new_sink_answer(sink), 201, {"Location": f"{producer.place}/sinks/{sink.sink_id}"})


def test_sink(request: Request, producer: Producer) -> Response:
    problem = results_of(request).sinks.test(producer, str(request.path_params["sink_id"]), now=now())
    return json_answer(schemas.SinkTestAnswer(is_taken=not problem, problem=problem))


def remove_sink(request: Request, producer: Producer) -> Response:
    results_of(request).sinks.remove(producer, str(request.path_params["sink_id"]))
    return Response(status_code=204)


def operations(kind: str, one: str, parameters: Mapping[str, OpenApiSchema], producer_of: ProducerOf) -> Operations:
    """The table of the routes of a kind of producers.

    Args:
        kind: what the names of the routes start with.
        one: the path of one of them.
        parameters: the schemas of its path's parameters.
        producer_of: finds it for the user who asks.
    """
    table = ProducerOperations(kind, one, parameters, producer_of)
    given, given_later, sinks = table.given, table.given_later, f"{one}/sinks"
    table.get(
        f"{one}/rows",
        "List the stored rows, filtered by time, class and score",
        schemas.RowsAnswer,
        query=schemas.RowPageQuery,
    )(given(list_rows))
    for form in FORMS:
        table.get(
            f"{one}/rows.{form.ending}",
            form.summary,
            (form.media_type,),
            more_errors=(501,) if form.needs_extra else (),
            query=schemas.RowQuery,
        )(given(export(form)))
    table.get(sinks, "List the sinks of its rows and events with their state", schemas.SinksAnswer)(given(list_sinks))
    table.post(
        sinks,
        "Add a sink for its rows or events: HTTP, MQTT, Home Assistant, Redis, Kafka or files",
        {201: schemas.NewSinkAnswer},
        more_errors=(403, 409, 429),
        body=schemas.SinkBody,
    )(given_later(add_sink))
    table.post(
        f"{sinks}/{{sink_id}}/test", "Send a test message to a sink now", schemas.SinkTestAnswer, more_errors=(429,)
    )(given(test_sink))
    table.delete(f"{sinks}/{{sink_id}}", "Remove a sink")(given(remove_sink))
    add_rule_operations(table)
    return table


def rows(page: ResultPage) -> schemas.RowsAnswer:
    return schemas.RowsAnswer(
        rows=[schemas.RowAnswer(**vars(one)) for one in page.records],
        next_cursor=page.cursor,
    )
