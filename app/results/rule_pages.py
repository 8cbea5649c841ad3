"""The page of a producer's rules: zones on its picture, what makes an event, and the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.kit.errors import ModelmillError, NotFound
from app.kit.text.json_values import JsonObject
from app.kit.web.common_pages import see_other
from app.kit.web.editor import Problems
from app.kit.web.http import query
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import render
from app.results.access import ProducerOf, results_of
from app.results.model.event import RuleCounts
from app.results.model.frame_result import FrameRecord, ResultFilter, labels_in
from app.results.model.producer import Producer
from app.results.model.rule import Rule, RuleSet
from app.results.model.rule_evaluation import size_of_row
from app.results.model.schedule import WEEK
from app.results.rule_endpoints import PICTURE_HEADERS
from app.results.rule_schemas import RuleBody, RuleEventQuery, ZoneBody

SHOWN = 50
LOOKED_AT = 200
"""Number of the newest rows whose classes and origins the form offers."""
MAX_BYTES = 10_000
USUAL_SIZE = (1600.0, 900.0)
"""Of a picture whose size nobody has said yet; zones are drawn on it."""
EMPTY_ZONE = {"zone_name": "", "points": ""}
TIMES = ("start", "end")
SENTENCES = {
    "name": "bad_name",
    "points": "bad_points",
    **dict.fromkeys(TIMES, "bad_time"),
    **dict.fromkeys(("min_score", "at_least", "dwell_s", "frames", "cooldown_s"), "bad_number"),
}
"""What is said of a field that is wrong: see problem_text in results/_fields.html."""
BY_FIELD = {"name": "zone_name", "points": "points"}


class PageQuery(RuleEventQuery):
    edit: Annotated[str, BeforeValidator(lambda text: text[:64])] = ""
    """Name of the rule that the form holds."""
    note: Annotated[str, BeforeValidator(lambda text: text[:20])] = ""
    node: Annotated[str, BeforeValidator(lambda text: text[:63])] = ""
    """Of a new rule, and of the picture; with `source`."""
    source: Annotated[str, BeforeValidator(lambda text: text[:63])] = ""


def rule_routes(base: str, producer_of: ProducerOf) -> list[BaseRoute]:
    """Returns the routes for a kind of producers; the arguments are those of `routes`."""
    pages, of_name = RulePages(producer_of), with_fields(MAX_BYTES, "A name")
    of_rule, of_zone = with_fields(MAX_BYTES, "A rule"), with_fields(MAX_BYTES, "A zone")
    return [
        Route(f"{base}/rules", pages.rules),
        Route(f"{base}/rules", of_rule(pages.save_rule), methods=["POST"]),
        Route(f"{base}/rules/remove", of_name(pages.remove_rule), methods=["POST"]),
        Route(f"{base}/zones", of_zone(pages.save_zone), methods=["POST"]),
        Route(f"{base}/zones/remove", of_name(pages.remove_zone), methods=["POST"]),
        Route(f"{base}/rule-events/{{event_id:int}}/picture", pages.picture),
    ]


class RulePages:
    def __init__(self, producer_of: ProducerOf) -> None:
        self.producer_of = producer_of

    def rules(self, request: Request) -> Response:
        criteria, producer = query(request, PageQuery), self.producer_of(request)
        kept = results_of(request).rules.get(producer).rule_set
        rule = next((one for one in kept.rules if one.name == criteria.edit), None)
        values = values_of(rule or Rule("", node=criteria.node, source=criteria.source))
        return _render_page(request, producer, {**EMPTY_ZONE, **values}, criteria=criteria)

    def save_zone(self, request: Request, sent: dict[str, str]) -> Response:
        values = {**EMPTY_ZONE, **{name: sent.get(name, "").strip() for name in EMPTY_ZONE}}
        given = {"name": values["zone_name"], "points": [pair.split(",") for pair in values["points"].split()]}
        body, problems = _read(ZoneBody, given)
        problems = {BY_FIELD[field]: problem for field, problem in problems.items()}

        def change(rule_set: RuleSet) -> RuleSet:
            return rule_set.with_zone(body.zone()) if body else rule_set

        values = {**values_of(Rule("")), **values}
        return self._answer_changed(request, values, change, problems, "points")

    def save_rule(self, request: Request, sent: dict[str, str]) -> Response:
        values = {name: sent.get(name, "").strip() for name in values_of(Rule(""))}
        body, problems = _read(RuleBody, _read_given(values))

        def change(rule_set: RuleSet) -> RuleSet:
            return rule_set.with_rule(body.rule()) if body else rule_set

        return self._answer_changed(request, {**EMPTY_ZONE, **values}, change, problems, "name")

    def remove_zone(self, request: Request, sent: dict[str, str]) -> Response:
        return self._answer_removed(request, lambda rule_set: rule_set.without_zone(sent.get("name", "")))

    def remove_rule(self, request: Request, sent: dict[str, str]) -> Response:
        return self._answer_removed(request, lambda rule_set: rule_set.without_rule(sent.get("name", "")))

    def picture(self, request: Request) -> Response:
        jpeg = results_of(request).rules.picture(self.producer_of(request), int(request.path_params["event_id"]))
        return Response(jpeg, media_type="image/jpeg", headers=PICTURE_HEADERS)

    def _answer_removed(self, request: Request, change: Callable[[RuleSet], RuleSet]) -> Response:
        return self._answer_changed(request, {**EMPTY_ZONE, **values_of(Rule(""))}, change, {}, "")

    def _answer_changed(
        self,
        request: Request,
        values: Mapping[str, str],
        change: Callable[[RuleSet], RuleSet],
        problems: Problems,
        field: str,
    ) -> Response:
        """To the page, or with what is wrong to the form. field: where what does not fit together is said."""
        producer, status = self.producer_of(request), 422
        if not problems:
            try:
                results_of(request).rules.change(producer, change)
                return see_other(f"{producer.page}/rules?note=saved")
            except NotFound:
                raise
            except ModelmillError as error:
                problems, status = {field: error}, error.status
        return _render_page(request, producer, values, problems=problems, status=status)


def values_of(rule: Rule) -> dict[str, str]:
    """Of a rule, as the fields of the form hold it."""
    schedule = rule.schedule
    own = {name: value for name, value in vars(rule).items() if name != "schedule"}
    return {
        **{name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in own.items()},
        **{day.value: "on" if schedule and day in schedule.days else "" for day in WEEK},
        "start": schedule.start if schedule else "",
        "end": schedule.end if schedule else "",
        "timezone": schedule.timezone if schedule else "",
    }


def _read_given(values: Mapping[str, str]) -> JsonObject:
    """The fields of the form as a RuleBody takes them; a schedule without days is for each day."""
    days = [day for day in WEEK if values[day.value]]
    of_schedule: JsonObject = {name: values[name] for name in (*TIMES, "timezone") if values[name]}
    own = {name: text for name, text in values.items() if text and name not in (*WEEK, *TIMES, "timezone")}
    if days:
        of_schedule["days"] = days
    has_schedule = bool(days or values["start"] or values["end"])
    return {**own, "schedule": of_schedule} if has_schedule else own


def _read(model: type[BaseModel], given: Mapping[str, Any]) -> tuple[Any, Problems]:
    try:
        return model.model_validate(given), {}
    except ValidationError as error:
        places = [(_field_of(one["loc"]), one["msg"]) for one in error.errors()]
        return None, {field: SENTENCES.get(field, message) for field, message in places}


def _field_of(place: tuple[int | str, ...]) -> str:
    """The field that holds what is wrong: within a schedule its own."""
    names = [step for step in place if isinstance(step, str)]
    return names[1] if names[0] == "schedule" and len(names) > 1 else names[0]


def _render_page(
    request: Request,
    producer: Producer,
    values: Mapping[str, str],
    *,
    criteria: PageQuery | None = None,
    problems: Problems | None = None,
    status: int = 200,
) -> Response:
    results, criteria = results_of(request), criteria or PageQuery()
    kept = results.rules.get(producer)
    page = results.rules.events(producer, criteria.chosen(), cursor=criteria.cursor, limit=SHOWN)
    newest = results.rows.page(producer, ResultFilter(), newest_first=True, limit=LOOKED_AT).records
    return render(
        request,
        "results/rules.html",
        status,
        area=producer.area,
        producer=producer,
        kept=kept.rule_set,
        problem=kept.problem,
        size=(size_of_row(newest[0].row) if newest else None) or USUAL_SIZE,
        labels=sorted({label for record in newest for label in labels_in(record.row)}),
        origins=_list_origins(newest, values),
        places=sorted({record.origin for record in newest if any(record.origin)}),
        week=[day.value for day in WEEK],
        has_schedule=any(values[name] for name in (*WEEK, *TIMES)),
        values=values,
        problems=problems or {},
        events=page.events,
        counts={rule.name: page.counts.get(rule.name, RuleCounts()) for rule in kept.rule_set.rules},
        rule_filter=criteria.rule,
        older=page.cursor,
        note=criteria.note,
    )


def _list_origins(newest: list[FrameRecord], values: Mapping[str, str]) -> dict[str, list[str]]:
    """The nodes and sources from which rules can choose; none where there is only one."""
    nodes, sources = ({record.origin[i] for record in newest} for i in (0, 1))
    return {
        "node": sorted({*nodes, values["node"]} - {""}),
        "source": sorted({*sources, values["source"]} - {""}),
    }
