"""What the first screen of a job's page says: figures, stages in proportion, the next action. Pure; words are the
templates'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from app.conversion.model import CANCELLED, JobRecord, Stage, StageRecord, StageState
from app.conversion.pages.view_models import ran_s, took_s
from app.conversion.service.quality.views import Boundary, OutputQuality, Quality
from app.conversion.toolchains.base import SNR_DB_MIN

BAR_PARTS = 24
"""The widths of the stages are told in so many parts of the whole."""
LEAST_PARTS = 4
"""Of a stage that took next to nothing: its name still has to be read."""
NEAR_DB = 5.0
"""An output this much above its rule is still worth a line."""
OUTPUTS_SHOWN = 4
VERDICT_AGAIN = "the worst output has an SNR of"
"""How the host toolchain starts the warning that repeats its verdict."""


@dataclass(frozen=True)
class StageSpan:
    """A stage as a part of the bar."""

    stage: Stage
    record: StageRecord
    ran_s: float | None
    parts: int
    """Of BAR_PARTS, more or less."""
    kind: str
    """done, busy, failed or wait."""


@dataclass(frozen=True)
class Headline:
    """The figures of the strip; None if nothing is known."""

    snr_db: float | None
    """Of the worst output; the lower mean, where it was also judged on pictures that set no range."""
    output: str
    """The worst output; empty if the toolchain does not tell them apart."""
    outputs: int
    below: int
    rule_db: float
    """What an output must reach: the goal in dB, if there is one, else the vendor's rule."""
    cosine_worst: float | None
    cosine_mean: float | None
    layers: int
    int8_layers: int
    quantised: Boundary
    compiled: Boundary
    is_uneven: bool = False
    """A single picture that set no range is below the floor."""

    @property
    def is_below(self) -> bool:
        return self.snr_db is not None and (self.snr_db < self.rule_db or self.is_uneven)


@dataclass(frozen=True)
class OutputRows:
    """The outputs after quantization that are worth a line at first sight, worst first, and the rest in one number."""

    shown: tuple[OutputQuality, ...]
    others: int
    others_from_db: float | None
    """The lowest of the others."""


def headline(quality: Quality) -> Headline:
    quantised, compiled = quality.boundaries[1], quality.boundaries[2]
    measured = [(output.snr_db.shown, output.name) for output in quantised.outputs if output.snr_db.shown is not None]
    snr_db, name = min(measured, default=(None, ""))
    judged = quality.judgement
    if judged is not None and judged.mean_db is not None and snr_db is not None:
        snr_db = min(snr_db, judged.mean_db)
    cosines = [output.cosine.shown for output in quantised.outputs if output.cosine.shown is not None]
    rule_db = rule_of(quality)
    return Headline(
        snr_db=snr_db,
        output=name,
        outputs=len(quantised.outputs),
        below=sum(value < rule_db for value, _ in measured),
        rule_db=rule_db,
        cosine_worst=min(cosines, default=None),
        cosine_mean=mean(cosines) if cosines else None,
        layers=len(quality.layers),
        int8_layers=sum(layer.is_int8 for layer in quality.layers),
        quantised=quantised,
        compiled=compiled,
        is_uneven=judged is not None and judged.is_uneven,
    )


def rule_of(quality: Quality) -> float:
    """dB that every output must reach."""
    goal = quality.goal
    return goal.threshold if goal and goal.kind == "snr" and goal.threshold is not None else SNR_DB_MIN


def notable_outputs(outputs: Sequence[OutputQuality], rule_db: float) -> OutputRows:
    """Those below or near the rule, and of the others so many that the worst few are there; none of equal tensors."""
    ranked = sorted((one for one in outputs if one.snr_db.shown is not None), key=lambda one: one.snr_db.shown or 0.0)
    near = [one for one in ranked if (one.snr_db.shown or 0.0) < rule_db + NEAR_DB]
    shown = ranked[: max(len(near), min(OUTPUTS_SHOWN, len(ranked)))]
    others = ranked[len(shown) :]
    return OutputRows(tuple(shown), len(others), others[0].snr_db.shown if others else None)


def stage_spans(record: JobRecord) -> list[StageSpan]:
    """All three stages; what has not run yet takes the least width."""
    times = {stage: ran_s(record.stages[stage.step]) for stage in Stage}
    total = sum(value for value in times.values() if value is not None) or 1.0
    return [
        StageSpan(
            stage,
            record.stages[stage.step],
            ran,
            LEAST_PARTS if ran is None else max(LEAST_PARTS, round(BAR_PARTS * ran / total)),
            _kind(record, record.stages[stage.step]),
        )
        for stage, ran in times.items()
    ]


def _kind(record: JobRecord, own: StageRecord) -> str:
    if own.state is StageState.DONE:
        return "done"
    if own.state is StageState.RUNNING:
        return "busy"
    is_cancelled = record.error is not None and record.error.code == CANCELLED
    return "failed" if own.state is StageState.FAILED and not is_cancelled else "wait"


def waited_s(record: JobRecord) -> float:
    """Seconds from submission to end in which no stage ran."""
    ran = sum(ran_s(own) or 0.0 for own in record.stages.values())
    return max(0.0, (took_s(record) or 0.0) - ran)


def saturating_groups(outputs: Sequence[OutputQuality]) -> list[tuple[str, list[OutputQuality]]]:
    """Outputs that an operator flatters, by that operator: one notice for all of them."""
    groups: dict[str, list[OutputQuality]] = {}
    for output in outputs:
        if output.saturates:
            groups.setdefault(output.saturates, []).append(output)
    return list(groups.items())


def remarks(quality: Quality) -> list[str]:
    """The warnings of the reports, each once, but for the one that the verdict says already."""
    return [text for text in dict.fromkeys(quality.warnings) if not text.startswith(VERDICT_AGAIN)]


def told_once(reason: str, facts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The facts of a failure that do not repeat its reason."""
    return [(name, value) for name, value in facts if not _repeats(reason, value)]


def new_lines(told: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The lines of a log that do not repeat what is told of the failure: its reason, its hint."""
    return [line for line in lines if not any(_repeats(text, line) for text in told)]


def _repeats(reason: str, text: str) -> bool:
    first, second = " ".join(reason.split()).casefold(), " ".join(text.split()).casefold()
    return bool(first) and first in second


def state_icon(record: JobRecord) -> str:
    """Which of static/favicon-*.svg the tab of the browser shows."""
    if not record.is_terminal:
        return "running"
    if record.error is not None:
        return "failed"
    return "warning" if record.verdict is not None and record.verdict.value == "BELOW_RULE" else "done"
