"""The endpoints of rules and their events below the place of a producer."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.web.http import json_answer, json_body, query
from app.results import rule_schemas as schemas
from app.results.access import results_of
from app.results.model.producer import Producer
from app.results.producer_operations import ProducerOperations

PICTURE_HEADERS = {"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; sandbox"}
MOST_DIGITS = 10


def get_rules(request: Request, producer: Producer) -> Response:
    return json_answer(schemas.rules_answer(results_of(request).rules.get(producer)))


async def put_rules(request: Request, producer: Producer) -> Response:
    body, rules = await json_body(request, schemas.RulesBody), results_of(request).rules
    return json_answer(schemas.rules_answer(await run_in_threadpool(rules.put, producer, body.rule_set())))


def rule_events(request: Request, producer: Producer) -> Response:
    criteria = query(request, schemas.RuleEventQuery)
    page = results_of(request).rules.events(
        producer, criteria.chosen(), cursor=criteria.cursor, newest_first=criteria.order == "desc", limit=criteria.limit
    )
    return json_answer(schemas.rule_events_answer(producer, page))


def event_id_of(request: Request) -> int:
    """The number of the event in the path; 0 if it is not one."""
    text = str(request.path_params["event_id"])
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else 0


def rule_event_picture(request: Request, producer: Producer) -> Response:
    picture = results_of(request).rules.picture(producer, event_id_of(request))
    return Response(picture, media_type="image/jpeg", headers=PICTURE_HEADERS)


def add_rule_operations(table: ProducerOperations) -> None:
    """Add the rules and events of a kind of producers to its table."""
    rules, events = f"{table.one}/rules", f"{table.one}/rule-events"
    table.get(rules, "Get its zones and rules", schemas.RulesAnswer, version_fields=("zones", "rules"))(
        table.given(get_rules)
    )
    table.put(rules, "Replace its zones and rules", schemas.RulesAnswer, more_errors=(409,), body=schemas.RulesBody)(
        table.given_later(put_rules)
    )
    table.get(
        events, "List the events of its rules, newest first", schemas.RuleEventsAnswer, query=schemas.RuleEventQuery
    )(table.given(rule_events))
    table.get(f"{events}/{{event_id}}/picture", "Get the picture of an event", ("image/jpeg",))(
        table.given(rule_event_picture)
    )
