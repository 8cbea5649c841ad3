"""Sinks of a job as the JSON API takes and gives them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, StringConstraints

from app.kit.web.strict import Strict
from app.video.model.sink import Sink, SinkContent, SinkKind
from app.video.schemas import TEXT
from app.video.service import SinkState


class SinkBody(Strict):
    kind: SinkKind
    address: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000, pattern=TEXT)]
    """http: https://…; mqtt, home_assistant: mqtt[s]://[user:password@]host[:port]/topic; redis:
    redis://[user:password@]host[:port]/database/stream; file: a folder of your data home, as datasets/door."""
    content: SinkContent = SinkContent.EVENTS
    """rows: of each frame; events: when a rule of the job holds."""


class SinkAnswer(BaseModel):
    sink_id: str
    kind: SinkKind
    content: SinkContent
    address: str
    """Without its password."""
    created_at: str
    state: Literal["idle", "delivering", "failing"]
    """idle: nothing waits; failing: the last try was in vain, see problem."""
    delivered: int
    delivered_at: str | None
    backlog: int
    """How many wait, at most 10000."""
    tries: int
    """In vain since the last one that was taken."""
    due_at: str
    """The next try of one that fails."""
    problem: str


class NewSinkAnswer(SinkAnswer):
    secret: str
    """whsec_…, by which its receiver checks who sends. Shown once; of MQTT empty."""


class SinkTestAnswer(BaseModel):
    is_taken: bool
    problem: str
    """Why it was not; empty: it was."""


class SinksAnswer(BaseModel):
    sinks: list[SinkAnswer]


def sink_answer(state: SinkState) -> SinkAnswer:
    return SinkAnswer.model_validate(_facts(state))


def new_sink_answer(sink: Sink) -> NewSinkAnswer:
    return NewSinkAnswer.model_validate({**_facts(SinkState(sink, 0)), "secret": sink.secret})


def _facts(state: SinkState) -> dict[str, object]:
    return {**vars(state.sink), "address": state.sink.shown_address, "backlog": state.backlog, "state": state.word}
