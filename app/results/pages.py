"""The pages of a producer's rows, rules and sinks: `routes` returns the routes for a kind of producers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.kit.clock import now, to_text
from app.kit.errors import BadInput, ModelmillError, NotFound
from app.kit.web.common_pages import see_other
from app.kit.web.editor import Problems
from app.kit.web.http import query
from app.kit.web.line_plot import over_time, time_plot
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import render
from app.results.access import ProducerOf, results_of
from app.results.errors import SinkNotFound
from app.results.exports import FORMS
from app.results.model.frame_result import ResultFilter
from app.results.model.producer import Producer
from app.results.model.sink import SentBy, Sink, SinkContent, SinkKind
from app.results.rule_pages import rule_routes
from app.results.schemas import RowQuery, filter_of

SHOWN = 30
"""Rows on a page; more would be too long on a phone."""
COUNTED = 1000
"""Number of the newest rows that the plot shows."""
MAX_BYTES = 10_000


def routes(base: str, producer_of: ProducerOf) -> list[BaseRoute]:
    """Returns the routes for a kind of producers.

    Args:
        base: path of the page of one producer.
        producer_of: finds the producer for the user.
    """
    pages, of_sink = ResultPages(producer_of), with_fields(MAX_BYTES, "A sink")
    return [
        *rule_routes(base, producer_of),
        Route(f"{base}/results", pages.rows),
        Route(f"{base}/sinks", pages.sinks),
        Route(f"{base}/sinks", of_sink(pages.add_sink), methods=["POST"]),
        Route(f"{base}/sinks/test", of_sink(pages.test_sink), methods=["POST"]),
        Route(f"{base}/sinks/remove", of_sink(pages.remove_sink), methods=["POST"]),
    ]


class ResultPages:
    def __init__(self, producer_of: ProducerOf) -> None:
        self.producer_of = producer_of

    def rows(self, request: Request) -> Response:
        """Renders the stored rows, filtered by time, class and score, with their counts over time."""
        producer, kept = self.producer_of(request), results_of(request).rows
        criteria, problem = RowQuery(), ""
        try:
            criteria = query(request, RowQuery)
        except BadInput as error:
            problem = error.message
        chosen = filter_of(criteria)
        shown = kept.page(producer, chosen, cursor=criteria.cursor, newest_first=True, limit=SHOWN)
        counted = kept.page(producer, chosen, newest_first=True, limit=COUNTED).records[::-1]
        older = f"{producer.page}/results?{_query_of(criteria, cursor=shown.cursor)}"
        return render(
            request,
            "results/results.html",
            422 if problem else 200,
            area=producer.area,
            producer=producer,
            criteria=criteria,
            problem=problem,
            records=shown.records,
            older=older if shown.cursor is not None else "",
            plot=time_plot({"objects": over_time(counted, lambda record: float(record.object_count))}),
            names=sorted({name for record in shown.records for name in record.counts}),
            download=_query_of(criteria),
            forms=[form.ending for form in FORMS if form.is_available],
            is_filtered=chosen != ResultFilter(),
        )

    def sinks(self, request: Request) -> Response:
        producer = self.producer_of(request)
        return _render_sinks(request, producer, _make_empty_form(request, producer))

    def add_sink(self, request: Request, sent: dict[str, str]) -> Response:
        producer = self.producer_of(request)
        empty = _make_empty_form(request, producer)
        values = {name: sent.get(name, "").strip() for name in empty}
        values["sent_by"] = values["sent_by"] or SentBy.SERVER.value
        choices = {"kind": SinkKind, "content": SinkContent, "sent_by": SentBy}
        if any(values[name] not in list(choice) for name, choice in choices.items()):
            return _render_sinks(request, producer, {**empty, "address": values["address"]}, status=422)
        try:
            kind, content = SinkKind(values["kind"]), SinkContent(values["content"])
            sent_by, sinks = SentBy(values["sent_by"]), results_of(request).sinks
            made = sinks.add(producer, kind, content, values["address"], sent_by=sent_by, now=now())
        except NotFound:
            raise
        except ModelmillError as error:
            return _render_sinks(request, producer, values, {"address": error}, status=error.status)
        if made.secret:
            return _render_sinks(request, producer, empty, made=made)
        return see_other(f"{producer.page}/sinks")

    def test_sink(self, request: Request, sent: dict[str, str]) -> Response:
        """Sends a test message, and shows the result."""
        producer, sink_id = self.producer_of(request), sent.get("sink_id", "")
        try:
            problem = results_of(request).sinks.test(producer, sink_id, now=now())
        except SinkNotFound as error:
            return _render_gone(request, producer, error)
        return _render_sinks(request, producer, _make_empty_form(request, producer), tested=(sink_id, problem))

    def remove_sink(self, request: Request, sent: dict[str, str]) -> Response:
        producer = self.producer_of(request)
        try:
            results_of(request).sinks.remove(producer, sent.get("sink_id", ""))
        except SinkNotFound as error:
            return _render_gone(request, producer, error)
        return see_other(f"{producer.page}/sinks")


def _make_empty_form(request: Request, producer: Producer) -> dict[str, str]:
    """Returns the empty form: for events if there are rules that make some."""
    has_rules = bool(results_of(request).rules.get(producer).rule_set.rules)
    content = SinkContent.EVENTS if has_rules else SinkContent.ROWS
    return {"kind": SinkKind.HTTP.value, "content": content.value, "sent_by": SentBy.SERVER.value, "address": ""}


def _render_gone(request: Request, producer: Producer, error: SinkNotFound) -> Response:
    """Sends the sinks that there are, after one was chosen on an older page."""
    return _render_sinks(request, producer, _make_empty_form(request, producer), is_gone=True, status=error.status)


def _render_sinks(
    request: Request,
    producer: Producer,
    values: Mapping[str, str],
    problems: Problems | None = None,
    *,
    made: Sink | None = None,
    tested: tuple[str, str] | None = None,
    is_gone: bool = False,
    status: int = 200,
) -> Response:
    return render(
        request,
        "results/sinks.html",
        status,
        area=producer.area,
        producer=producer,
        kinds=list(SinkKind),
        sinks=results_of(request).sinks.of(producer),
        values=values,
        problems=problems or {},
        made=made,
        tested=tested,
        is_gone=is_gone,
        shown_at=to_text(now()),
    )


def _query_of(criteria: RowQuery, **change: Any) -> str:
    values = {
        "since": to_text(criteria.since) if criteria.since else "",
        "until": to_text(criteria.until) if criteria.until else "",
        "label": criteria.label,
        "min_score": criteria.min_score,
        **change,
    }
    return urlencode({name: value for name, value in values.items() if value not in ("", None)})
