"""How a task looks to a reader: where its time went, step by step and attempt by attempt. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from markupsafe import Markup

from app.kit.clock import from_text
from app.training.model import TERMINAL, Attempt, FailureKind, State, Task, TaskEvent

BAR_WIDTH, BAR_HEIGHT, BAR_LEAST = 1000, 14, 4
STATE_EVENT = "STATE"


class Step(StrEnum):
    """What a reader tells apart of a task's way; the last one is how it ended."""

    QUEUED = "queued"
    WAITING = "waiting"
    SUBMITTED = "submitted"
    RUNNING = "running"
    ENDED = "ended"


STEP_OF = {
    State.QUEUED: Step.QUEUED,
    State.PENDING_RESOURCES: Step.WAITING,
    State.SUBMITTING: Step.SUBMITTED,
    State.SUBMITTED: Step.SUBMITTED,
    State.RUNNING: Step.RUNNING,
    State.CANCELING: Step.RUNNING,
    **dict.fromkeys(TERMINAL, Step.ENDED),
}


@dataclass(frozen=True)
class Span:
    """A stretch of time in one state."""

    state: State
    start: datetime
    end: datetime
    attempt_no: int
    """Whose, 0 while it waits for its first."""

    @property
    def seconds(self) -> float:
        return max(0.0, (self.end - self.start).total_seconds())


@dataclass(frozen=True)
class StepTime:
    """A step as a whole."""

    step: Step
    seconds: float | None
    """All the time in it, None if it never was."""
    is_now: bool


@dataclass(frozen=True)
class TimeRow:
    """A bar of the picture."""

    attempt: Attempt | None
    """None for the time in line."""
    bar: Markup
    seconds: float
    """What it stands for."""
    ending: str = ""
    """The name of its colour: by what came of the attempt, "" while it runs."""


def spans(task: Task, events: Sequence[TaskEvent], now: datetime) -> list[Span]:
    """The states that the task went through, oldest first. One that has not ended goes on until now."""
    spans: list[Span] = []
    state, start, attempt_no = State.QUEUED, from_text(task.created_at), 0
    for event in events:
        if event.kind != STATE_EVENT:
            continue
        at = from_text(event.at)
        spans.append(Span(state, start, at, attempt_no))
        state, start = State(event.detail["to"]), at
        attempt_no += state is State.SUBMITTING
    if state not in TERMINAL:
        spans.append(Span(state, start, max(now, start), attempt_no))
    return spans


def rungs(task: Task, spans: Sequence[Span]) -> list[StepTime]:
    seconds: dict[Step, float] = {}
    for span in spans:
        step = STEP_OF[span.state]
        seconds[step] = seconds.get(step, 0.0) + span.seconds
    current = STEP_OF[task.state]
    return [StepTime(step, seconds.get(step), step is current) for step in Step]


def rows(task: Task, attempts: Sequence[Attempt], spans: Sequence[Span]) -> list[TimeRow]:
    """One bar for the time in line, and one for each attempt; all over the same time."""
    if not spans:
        return []
    begin, end = spans[0].start, spans[-1].end
    in_line = [span for span in spans if STEP_OF[span.state] in (Step.QUEUED, Step.WAITING)]
    made = [_make_row(None, in_line, begin, end)]
    for attempt in attempts:
        theirs = [span for span in spans if span.attempt_no == attempt.attempt_no and span not in in_line]
        made.append(_make_row(attempt, theirs, begin, end, _choose_ending(task, attempt)))
    return made


def _choose_ending(task: Task, attempt: Attempt) -> str:
    """The color of an attempt's bar by what came of it."""
    if attempt.failure_kind is FailureKind.CANCELED:
        return "is-canceled"
    if attempt.failure_kind is not None:
        return "is-failed"
    is_last = attempt.attempt_no == task.latest_attempt_no
    return "is-done" if is_last and task.state is State.SUCCEEDED else ""


def _make_row(
    attempt: Attempt | None, spans: Sequence[Span], begin: datetime, end: datetime, ending: str = ""
) -> TimeRow:
    return TimeRow(attempt, _draw_bar(spans, begin, end, ending), sum(span.seconds for span in spans), ending)


def _draw_bar(spans: Sequence[Span], begin: datetime, end: datetime, ending: str) -> Markup:
    whole = max((end - begin).total_seconds(), 0.001)
    text = '<svg class="time-bar {}" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    parts = Markup().join(_draw_rectangles(spans, begin, whole))
    return Markup(text).format(ending, BAR_WIDTH, BAR_HEIGHT, parts)  # noqa: S704  # format() escapes


def _draw_rectangles(spans: Sequence[Span], begin: datetime, whole: float) -> Iterator[Markup]:
    rect = '<rect class="{}" x="{}" y="0" width="{}" height="{}"></rect>'
    yield Markup(rect).format("bar-track", 0, BAR_WIDTH, BAR_HEIGHT)  # noqa: S704  # format() escapes
    for span in spans:
        left = BAR_WIDTH * (span.start - begin).total_seconds() / whole
        width = max(BAR_WIDTH * span.seconds / whole, BAR_LEAST)
        left = min(left, BAR_WIDTH - width)
        yield Markup(rect).format(  # noqa: S704  # format() escapes
            f"span-{STEP_OF[span.state]}", round(left, 1), round(width, 1), BAR_HEIGHT
        )


def took_s(task: Task, now: datetime) -> float:
    """From submission to its end, or until now."""
    end = from_text(task.ended_at) if task.ended_at else now
    return max(0.0, (end - from_text(task.created_at)).total_seconds())


def ran_s(attempt: Attempt) -> float | None:
    if attempt.started_at is None or attempt.ended_at is None:
        return None
    return max(0.0, (from_text(attempt.ended_at) - from_text(attempt.started_at)).total_seconds())


def short(task_id: str) -> str:
    """The end of an id, which tells tasks apart; its beginning is the same for all of a user's."""
    return "…" + task_id[-11:] if len(task_id) > 20 else task_id
