"""Next actions for a conversion, each with its cost, the most worthwhile first.

Pure. They are derived from the reports of a job and from its intake. The gain of a tested action is measured; an
untested one has none. Texts are gettext keys with separate numbers, like findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.conversion.goals import TASK_GOAL, find_hidden_loss, is_cross_validated
from app.conversion.model import JobRecord
from app.conversion.options import Options, ToolchainName
from app.conversion.service.quality import candidates
from app.conversion.service.quality.candidates import Search
from app.conversion.toolchains.base import GOOD_SAMPLES, SNR_DB_MIN
from app.kit.text.json_values import JsonObject

MESSAGES: Mapping[str, str] = {
    "preprocess": "Prepare the pictures as %(family)s models are trained: %(values)s.",
    "preprocess_check": "Check the preprocessing: %(reason)s",
    "goal": "Let the conversion search for %(goal)s automatically.",
    "task": "Let the conversion search for %(goal)s: the SNR is good, but the task loses %(lost)s percent.",
    "candidate": "Use %(name)s: %(snr_db)s dB.",
    "fastest": "Stay in float where int8 is slower: int8 takes %(int8_ms)s ms and float %(float_ms)s ms here.",
    "more_samples": "Calibrate with about %(good)s typical pictures instead of %(count)s.",
    "outlier_samples": "Look at the pictures that cost most: %(names)s.",
    "first_bad": "Look at %(layer)s: from the front, it is the first layer that costs the goal "
    "(%(before_db)s → %(snr_db)s dB), most on %(names)s.",
    "first_bad_channels": "Look at channels %(channels)s of %(layer)s: from the front, it is the first layer that "
    "costs the goal (%(before_db)s → %(snr_db)s dB), most on %(names)s.",
    "first_bad_task": "Look at %(layer)s: from the front, it is the first layer that costs the goal (task loss "
    "%(before_drop)s → %(drop)s percent).",
    "shortfall": "Leave %(layers)s in float: %(names)s, the pictures with the lowest SNR, have %(after_db)s dB then "
    "instead of %(before_db)s.",
    "small_outputs": "Calibrate with more pictures like %(names)s, or judge by the task: their outputs are small, and "
    "their errors are as usual.",
    "weights": "The weights of %(layers)s are the limit in 8 bits: 16 bits for them, or retraining.",
    "rung": "Try the next step of the vendor's options: %(name)s.",
}
"""By code."""
PREPROCESS_CODES = ("CHANNEL_ORDER", "WRONG_SCALE", "WRONG_OFFSET", "OTHER_PREPROCESSING", "MEAN_ORDER")
WORTH_DB = 0.5
"""A smaller gain is within the noise of the pictures."""
WORTH_MS = 0.1
"""For latency; a smaller difference is within the noise of the machine."""
WEIGHTS_DB = 25.0
"""Weights of a layer that alone are below this leave no room for the activations' share of 20 dB."""
NAMED_AT_MOST = 3


@dataclass(frozen=True)
class Action:
    """A possible next action."""

    code: str
    """A key of MESSAGES."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """The values of its message."""
    gain_db: float | None = None
    """Of SNR at the worst output, compared with the current result; None: unknown."""
    size_delta_bytes: int | None = None
    latency_delta_ms: float | None = None
    """On the machine that measured; for a Kneron chip as its evaluator expects."""
    is_measured: bool = False
    """Whether it was tested. Otherwise the gain is an expectation."""
    options_patch: Mapping[str, Any] = field(default_factory=dict)
    """The JSON merge patch for the job's options that applies it; empty: it cannot be applied automatically."""

    @property
    def message(self) -> str:
        """A gettext key with %(name)s for the entries of params."""
        return MESSAGES[self.code]

    @property
    def text(self) -> str:
        """The message in English, with its numbers."""
        return self.message % self.params

    @property
    def snr_db(self) -> float | None:
        """Its predicted result; None without a prediction."""
        return self.params.get("snr_db")


@dataclass(frozen=True)
class Evidence:
    """What is known of a job."""

    options: Options
    bie: JsonObject = field(default_factory=dict)
    """bie.json; empty while there is none."""
    warnings: Sequence[JsonObject] = ()
    """Of the intake: {code, message, detail}."""
    recognition: JsonObject = field(default_factory=dict)
    """The preprocessing that the model's family is trained with, as Recognition.to_json gives it; may be empty."""


def actions_of(record: JobRecord, bie: JsonObject | None) -> tuple[Action, ...]:
    """Of a job.

    Args:
        bie: Its bie.json; None while there is none, and then there is nothing to advise.
    """
    if bie is None:
        return ()
    intake = record.intake
    return next_actions(Evidence(record.options, bie, intake.get("warnings", ()), intake.get("recognition") or {}))


def next_actions(evidence: Evidence) -> tuple[Action, ...]:
    """One ordered list: invalid inputs first, then measured gains, then advice."""
    search = candidates.read_search(evidence.bie)
    return (
        *_suggest_preprocess(evidence),
        *_suggest_task(evidence),
        *sorted(_suggest_candidates(evidence, search), key=_rank_action),
        *_suggest_goal(evidence, search),
        *_suggest_fastest(evidence),
        *_suggest_samples(evidence),
        *_suggest_for_shortfall(evidence),
        *_suggest_for_first_bad(evidence, search),
        *_suggest_weights(evidence),
    )


def _rank_action(action: Action) -> tuple[bool, float]:
    """Actions that reach the rule are ordered by cost, cheapest first; others by gain."""
    reaches = action.params["snr_db"] >= SNR_DB_MIN
    cost = action.latency_delta_ms if action.latency_delta_ms is not None else float(action.size_delta_bytes or 0)
    return not reaches, cost if reaches else -(action.gain_db or 0.0)


def _suggest_preprocess(evidence: Evidence) -> Iterator[Action]:
    warning = next((w for w in evidence.warnings if w["code"] in PREPROCESS_CODES), None)
    known = evidence.recognition
    own = evidence.options.preprocess.to_json()
    if known.get("is_sure") and {**own, **known["preprocess"]} != own:
        patch = {"preprocess": known["preprocess"]}
        yield Action(
            "preprocess", {"family": known["title"] or known["family"], "values": known["summary"]}, options_patch=patch
        )
    elif warning is not None:
        yield Action("preprocess_check", {"reason": warning["message"]})


def _suggest_task(evidence: Evidence) -> Iterator[Action]:
    lost = find_hidden_loss(evidence.bie)
    if lost is not None:
        params = {"goal": TASK_GOAL, "lost": round(lost, 1)}
        yield Action("task", params, options_patch=candidates.goal_patch(TASK_GOAL))


def _suggest_candidates(evidence: Evidence, search: Search | None) -> Iterator[Action]:
    """Those that are worthwhile: they gain at the mean, and lose no more than that at the lowest picture."""
    taken = search.taken if search else None
    if search is None or taken is None:
        return
    lost_db = {one.id: candidates.difference(taken.snr_min_db, one.snr_min_db) or 0.0 for one in search.candidates}
    for action in candidate_actions(evidence.options, search):
        if (action.gain_db or 0.0) >= max(WORTH_DB, lost_db[action.params["id"]]):
            yield action


def candidate_actions(options: Options, search: Search | None) -> Iterator[Action]:
    """Yields an action for each candidate that was not chosen, whatever its gain: it selects that candidate.

    Args:
        options: Of the job.
        search: Its candidates; None without a search.
    """
    taken = search.taken if search else None
    if search is None or taken is None or taken.snr_db is None:
        return
    for candidate in search.candidates:
        if candidate.snr_db is None or candidate.id == taken.id:
            continue
        yield Action(
            "candidate",
            {"name": candidate.name, "id": candidate.id, "snr_db": round(candidate.snr_db, 1)},
            gain_db=round(candidate.snr_db - taken.snr_db, 2),
            size_delta_bytes=candidates.difference(candidate.size_bytes, taken.size_bytes),
            latency_delta_ms=candidates.difference(candidate.latency_ms, taken.latency_ms),
            is_measured=True,
            options_patch=candidates.patch_for(options.toolchain, candidate),
        )


def _suggest_fastest(evidence: Evidence) -> Iterator[Action]:
    latency = evidence.bie.get("latency_ms") or {}
    float_ms, int8_ms = latency.get("float"), latency.get("int8")
    if float_ms and int8_ms and int8_ms > float_ms + WORTH_MS:
        patch = candidates.goal_patch("fastest")
        yield Action("fastest", {"int8_ms": int8_ms, "float_ms": float_ms}, None, None, float_ms - int8_ms, True, patch)


def _suggest_goal(evidence: Evidence, search: Search | None) -> Iterator[Action]:
    verdict = evidence.bie.get("verdict") or {}
    is_host = evidence.options.toolchain is ToolchainName.HOST
    if is_host and search is None and verdict and not verdict.get("passed") and not verdict.get("nothing_quantized"):
        goal = f"snr>={SNR_DB_MIN:g}"
        yield Action("goal", {"goal": goal}, options_patch=candidates.goal_patch(goal))


def _suggest_samples(evidence: Evidence) -> Iterator[Action]:
    judgement = evidence.bie.get("judgement") or {}
    set_aside = 0 if judgement.get("is_own_set") or is_cross_validated(judgement) else judgement.get("report", 0)
    count = (evidence.bie.get("calibration") or {}).get("samples", 0) + set_aside
    if 0 < count < GOOD_SAMPLES:
        yield Action("more_samples", {"count": count, "good": GOOD_SAMPLES})
    worst = (evidence.bie.get("quality") or {}).get("worst_samples", ())
    low = [row["name"] for row in worst if row["snr_db"] < SNR_DB_MIN / 2][:NAMED_AT_MOST]
    if low:
        yield Action("outlier_samples", {"names": ", ".join(low)})


def _suggest_for_shortfall(evidence: Evidence) -> Iterator[Action]:
    """What was measured on the pictures that keep a search from its goal."""
    known = (evidence.bie.get("search") or {}).get("shortfall")
    if not known:
        return
    names, layers = ", ".join(known["pictures"]), [name for name, _ in known["layers"]]
    if known["code"] == "small_outputs":
        has_task = bool((evidence.bie.get("quality") or {}).get("task"))
        yield Action(
            "small_outputs", {"names": names}, options_patch=candidates.goal_patch(TASK_GOAL) if has_task else {}
        )
    if layers:
        quantization = evidence.options.quantization
        excluded = [*quantization.exclude_nodes, *(name for name in layers if name not in quantization.exclude_nodes)]
        numbers = {"before_db": round(known["base_db"], 1), "after_db": round(known["layers_db"], 1)}
        patch = {"quantization": {"exclude_nodes": excluded}}
        yield Action("shortfall", {"layers": ", ".join(layers), "names": names, **numbers}, options_patch=patch)


def _suggest_for_first_bad(evidence: Evidence, search: Search | None) -> Iterator[Action]:
    bad = search.first_bad if search else None
    if bad is None or (evidence.bie.get("goal") or {}).get("is_reached"):
        return
    if bad.drop is not None:
        yield Action("first_bad_task", {"layer": bad.layer, "before_drop": bad.before_drop, "drop": bad.drop})
    else:
        params = {
            "layer": bad.layer,
            "before_db": bad.before_db,
            "snr_db": bad.snr_db,
            "names": ", ".join(bad.pictures),
        }
        channels = {"channels": bad.shown_channels} if bad.channels else {}
        yield Action("first_bad_channels" if channels else "first_bad", params | channels)


def _suggest_weights(evidence: Evidence) -> Iterator[Action]:
    layers = (evidence.bie.get("quality") or {}).get("layers", ())
    passed = (evidence.bie.get("verdict") or {}).get("passed", True)
    weak = [row for row in layers if row.get("weight_snr_db") is not None and row["weight_snr_db"] < WEIGHTS_DB]
    if weak and not passed:
        lowest = sorted(weak, key=lambda row: row["weight_snr_db"])[:NAMED_AT_MOST]
        yield Action("weights", {"layers": ", ".join(row["name"] for row in lowest)})
