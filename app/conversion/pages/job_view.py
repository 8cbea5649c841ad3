"""The first screen of a job's page: figures, stages in proportion, the next action. Pure; the texts are in the
templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from app.conversion.model import CANCELLED, JobRecord, Stage, StageRecord, StageState
from app.conversion.pages.view_models import ran_s, took_s
from app.conversion.service.quality.views import Boundary, OutputQuality, Quality
from app.conversion.toolchains.base import SNR_DB_MIN

BAR_PARTS = 24
"""The widths of the stages are whole multiples of this part of the bar."""
LEAST_PARTS = 4
"""Width of a very short stage: its name has to be readable."""
NEAR_DB = 5.0
"""An output that exceeds its rule by at most this much, in dB, is still listed."""
OUTPUTS_SHOWN = 4
VERDICT_AGAIN = "the worst output has an SNR of"
"""Beginning of the host toolchain's warning that repeats its verdict."""


@dataclass(frozen=True)
class StageSpan:
    """A stage as a part of the bar."""

    stage: Stage
    record: StageRecord
    ran_s: float | None
    parts: int
    """Width; those of all stages add up to about BAR_PARTS."""
    kind: str
    """done, busy, failed or wait."""


@dataclass(frozen=True)
class Headline:
    """The figures at the top of the page; None where nothing is known."""

    snr_db: float | None
    """Of the worst output; the lower of two means if held-out pictures were measured, too."""
    output: str
    """The worst output; empty if the toolchain reports only one number for all."""
    outputs: int
    below: int
    rule_db: float
    """What an output has to reach: the goal in dB, if there is one, else the vendor's rule."""
    cosine_worst: float | None
    cosine_mean: float | None
    layers: int
    int8_layers: int
    quantised: Boundary
    compiled: Boundary
    is_uneven: bool = False
    """True if a single held-out picture is below the limit."""

    @property
    def is_below(self) -> bool:
        return self.snr_db is not None and (self.snr_db < self.rule_db or self.is_uneven)


@dataclass(frozen=True)
class OutputRows:
    """The quantized outputs that are listed at first sight, worst first, and a summary of the others."""

    shown: tuple[OutputQuality, ...]
    others: int
    others_from_db: float | None
    """Lowest SNR of the others, in dB."""


def headline(quality: Quality) -> Headline:
    """Returns the figures at the top of the page."""
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
    """Returns the SNR in dB that every output has to reach."""
    goal = quality.goal
    return goal.threshold if goal and goal.kind == "snr" and goal.threshold is not None else SNR_DB_MIN


def notable_outputs(outputs: Sequence[OutputQuality], rule_db: float) -> OutputRows:
    """Selects the outputs below or near the rule, or else a few of the worst ones; equal tensors are never listed."""
    ranked = sorted((one for one in outputs if one.snr_db.shown is not None), key=lambda one: one.snr_db.shown or 0.0)
    near = [one for one in ranked if (one.snr_db.shown or 0.0) < rule_db + NEAR_DB]
    shown = ranked[: max(len(near), min(OUTPUTS_SHOWN, len(ranked)))]
    others = ranked[len(shown) :]
    return OutputRows(tuple(shown), len(others), others[0].snr_db.shown if others else None)


def stage_spans(record: JobRecord) -> list[StageSpan]:
    """Returns all three stages; one that has not run yet gets the least width."""
    times = {stage: ran_s(record.stages[stage.step]) for stage in Stage}
    total = sum(value for value in times.values() if value is not None) or 1.0
    return [
        StageSpan(
            stage,
            record.stages[stage.step],
            ran,
            LEAST_PARTS if ran is None else max(LEAST_PARTS, round(BAR_PARTS * ran / total)),
            _choose_kind(record, record.stages[stage.step]),
        )
        for stage, ran in times.items()
    ]


def _choose_kind(record: JobRecord, own: StageRecord) -> str:
    if own.state is StageState.DONE:
        return "done"
    if own.state is StageState.RUNNING:
        return "busy"
    is_cancelled = record.error is not None and record.error.code == CANCELLED
    return "failed" if own.state is StageState.FAILED and not is_cancelled else "wait"


def measure_wait_s(record: JobRecord) -> float:
    """Returns the seconds between submission and end in which no stage ran."""
    ran = sum(ran_s(own) or 0.0 for own in record.stages.values())
    return max(0.0, (took_s(record) or 0.0) - ran)


def saturating_groups(outputs: Sequence[OutputQuality]) -> list[tuple[str, list[OutputQuality]]]:
    """Groups the outputs whose numbers an operator embellishes, by that operator, for one notice each."""
    groups: dict[str, list[OutputQuality]] = {}
    for output in outputs:
        if output.saturates:
            groups.setdefault(output.saturates, []).append(output)
    return list(groups.items())


def remarks(quality: Quality) -> list[str]:
    """Returns the warnings of the reports, each once, without the one that repeats the verdict."""
    return [text for text in dict.fromkeys(quality.warnings) if not text.startswith(VERDICT_AGAIN)]


def facts_beyond_reason(reason: str, facts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the facts of a failure that do not repeat its reason."""
    return [(name, value) for name, value in facts if not _repeats(reason, value)]


def new_lines(present: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Returns the lines of a log that do not repeat what is shown of the failure: its reason and its hint."""
    return [line for line in lines if not any(_repeats(text, line) for text in present)]


def _repeats(reason: str, text: str) -> bool:
    first, second = " ".join(reason.split()).casefold(), " ".join(text.split()).casefold()
    return bool(first) and first in second


def state_icon(record: JobRecord) -> str:
    """Returns which static/favicon-*.svg the browser's tab shows."""
    if not record.is_terminal:
        return "running"
    if record.error is not None:
        return "failed"
    return "warning" if record.verdict is not None and record.verdict.value == "BELOW_RULE" else "done"
