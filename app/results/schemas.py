"""Rows and sinks as the JSON API takes and gives them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints, field_validator

from app.kit.clock import to_text
from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.kit.web.strict import TEXT, Moment, Strict, empty_as_none
from app.results.model.frame_result import ResultFilter, Row
from app.results.model.sink import SentBy, Sink, SinkContent, SinkKind


class RowQuery(Strict):
    """Which rows."""

    since: Moment | None = None
    """Answered at this time or later, with its offset from UTC, such as 2026-11-20T00:00:00Z."""
    until: Moment | None = None
    """Answered before this time."""
    label: Annotated[str, Field(max_length=200, pattern=TEXT)] = ""
    """Only frames with an object of this class."""
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """Lowest score of such an object, 0 to 1."""
    cursor: Annotated[int, Field(ge=0, le=(1 << 31) - 1)] | None = None
    """next_cursor of the previous page."""

    _empty_as_none = field_validator("since", "until", "min_score", "cursor", mode="before")(empty_as_none)


class RowPageQuery(RowQuery):
    order: Literal["asc", "desc"] = "asc"
    """Order by frame: oldest first, or newest first."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


def filter_of(criteria: RowQuery) -> ResultFilter:
    return ResultFilter(
        to_text(criteria.since) if criteria.since else None,
        to_text(criteria.until) if criteria.until else None,
        criteria.label,
        criteria.min_score,
    )


class RowAnswer(BaseModel):
    n_loop: int
    """Number of the frame."""
    at: str
    """When it was answered, by the node's clock."""
    stored_at: str
    """When the web server stored it, by its own clock, which counts for how long it is kept."""
    row: Annotated[JsonObject, DescribedType(Row)]


class RowsAnswer(BaseModel):
    rows: list[RowAnswer]
    next_cursor: int | None


class SinkBody(Strict):
    kind: SinkKind
    address: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000, pattern=TEXT)]
    """http: https://…; mqtt, home_assistant: mqtt[s]://[user:password@]host[:port]/topic; redis:
    redis://[user:password@]host[:port]/database/stream; kafka: kafka[s]://[user:password@]host[:port][,host[:port]…]/topic
    with ?key=source (default), node or none; file: a folder of your data home, as datasets/door."""
    content: SinkContent = SinkContent.EVENTS
    """rows: those of every frame; events: those of its rules."""
    sent_by: SentBy = SentBy.SERVER
    """server: the web server delivers; node: the node that made the rows does, also while the web server is away."""


class SinkAnswer(BaseModel):
    sink_id: str
    kind: SinkKind
    content: SinkContent
    address: str
    """Without its password."""
    sent_by: SentBy
    nodes: list[str]
    """The nodes that deliver and have reported how far they are; their figures are added up."""
    created_at: str
    state: Literal["idle", "delivering", "failing"]
    """idle: nothing waits; failing: the last try was in vain, see problem."""
    delivered: int
    delivered_at: str | None
    backlog: int
    """How many wait, at most 10000."""
    lost: int
    """How many a node has dropped, because more than 64 MiB waited on its disk."""
    tries: int
    """In vain since the last one that was taken."""
    due_at: str
    """The next try of one that fails."""
    problem: str
    skipped: int
    """How many were too large for the receiver even alone, and were left out; they stay in the results."""
    skip_reason: str
    """Which of them was the last, and what the receiver said; empty: none."""


class NewSinkAnswer(SinkAnswer):
    secret: str
    """whsec_…, by which its receiver checks who sends. Shown once; of MQTT empty."""


class SinkTestAnswer(BaseModel):
    is_taken: bool
    problem: str
    """Why it was not; empty: it was."""


class SinksAnswer(BaseModel):
    sinks: list[SinkAnswer]


def sink_answer(sink: Sink) -> SinkAnswer:
    return SinkAnswer.model_validate(_collect_facts(sink))


def new_sink_answer(sink: Sink) -> NewSinkAnswer:
    return NewSinkAnswer.model_validate({**_collect_facts(sink), "secret": sink.secret})


def _collect_facts(sink: Sink) -> dict[str, object]:
    shown = {"address": sink.shown_address, "backlog": sink.queued, "state": sink.word, "nodes": list(sink.by_node)}
    return {**vars(sink), **shown}
