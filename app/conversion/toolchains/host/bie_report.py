"""What the report of a BIE stage says in words and a few numbers: its warnings, its summary, its lines in the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Any

from app.conversion.goals import TASK_GOAL, find_hidden_loss
from app.conversion.toolchains.base import SNR_DB_MIN
from app.conversion.toolchains.host.quality import build_judged_verdict, is_slower
from app.conversion.toolchains.host.search.result import SearchResult
from app.conversion.toolchains.host.search.shortfall import SIXTEEN_BITS
from app.conversion.toolchains.host.task_metrics import FINDERS
from app.kit.text.json_values import JsonObject

WITHOUT_A_SEARCH = 'name a goal (--goal "snr>=20") in place of a method, or give more typical pictures'
AFTER_A_CUT_SEARCH = "a longer budget or more typical pictures may lift it; the goal says what stands in its way"
AFTER_A_SEARCH = "more pictures like the lowest ones may lift it; the goal says what stands in its way"
ODD_NAMED = 5
ANSWERED_LEAST = 0.5
"""Share of the pictures in which a model that looks for something should find something, if its quality is low."""


def odd_warnings(not_finite: Mapping[str, str]) -> list[str]:
    """Returns a warning that names the first tensors with values that are not finite, and their samples."""
    first = [f"{name!r} for sample {sample!r}" for name, sample in list(not_finite.items())[:ODD_NAMED]]
    return [f"tensors that are not finite stay in float: {', '.join(first)}"] if first else []


def feature_warnings(nodes: Collection[str]) -> list[str]:
    """Returns that features stay in float, if there are any."""
    text = f"{len(nodes)} nodes that compute features whose logarithm is taken stay in float, as preprocessing would"
    return [text] if nodes else []


def goal_line(result: SearchResult) -> str:
    """Returns a line for the log: whether the goal is reached, and by what."""
    goal, judgement = result.goal or {}, result.judgement
    pictures = f"{judgement['n']} pictures that were not used to choose ranges"
    known = f"{judgement['mean_db']} dB on {pictures}, lowest {judgement['min_db']} dB"
    known = known if judgement["n"] else "no picture has an SNR"
    if judgement["uncounted"]:
        known += f", {judgement['uncounted']} not counted, as the output is nearly silent there in float and in 8 bits"
    drop = result.search["candidates"][result.search["taken"]]["drop_percent"]
    known += "" if drop is None else f"; {drop} % of the task lost on those that chose"
    if not goal:
        return f"{'made as the steps say' if result.search['ended_by'] == 'given' else 'taken'}: {known}"
    if goal["is_reached"]:
        return f"the goal {goal['text']} is reached: {known}"
    return f"the goal {goal['text']} is not reached ({goal['reason_code']}): {known}"


ENDS = {
    "reached": "the goal was reached",
    "given": "it was given",
    "exhausted": "there was nothing more to try",
    "budget": "its budget was used up",
    "last_resort": "the machine was too busy to use its budget of CPU time up: the clock ended it",
}


def effort_line(result: SearchResult) -> str:
    """Returns a line for the log: what the search took, and why it ended."""
    taken = result.search
    used = f"{taken['elapsed_s']:g} s by the clock, {taken['cpu_s']:g} s of CPU time"
    text = f"the search took {used}, and ended because {ENDS[taken['ended_by']]}"
    if taken["is_cut"] and taken["ended_by"] not in ("budget", "last_resort"):
        text += "; its budget left something untried, so a faster machine may try other candidates"
    return text


def mark_saturating(report: JsonObject, operators: Mapping[str, str]) -> None:
    """Marks the outputs of the report whose last operator hides errors.

    Args:
        operators: that operator, by output.
    """
    for output in report["quality"]["outputs"]:
        if output["name"] in operators:
            output["saturates"] = operators[output["name"]]


def search_report(result: SearchResult, report: JsonObject) -> JsonObject:
    """Returns the goal, the candidates, the judgement and the verdict that follows."""
    judgement = result.judgement | {"task": report["quality"].get("task")}
    verdict = build_judged_verdict(report["verdict"], judgement)
    return {"goal": result.goal, "search": result.search, "judgement": judgement, "verdict": verdict}


def speed_warnings(report: Mapping[str, Any]) -> list[str]:
    """Warns if int8 is not faster on this machine; this warning comes first."""
    int8_ms, float_ms = report["latency_ms"]["int8"], report["latency_ms"]["float"]
    if report["verdict"]["nothing_quantized"] or not is_slower(int8_ms, float_ms):
        return []
    return [
        f"int8 is slower than float on this machine: {int8_ms} ms against {float_ms} ms with one thread; "
        'the goal "fastest" keeps such a model in float'
    ]


def quality_warnings(report: Mapping[str, Any]) -> list[str]:
    """Returns what a user can do about a quality below the rule, and which samples show nothing of it."""
    verdict, outputs = report["verdict"], report["quality"]["outputs"]
    warnings = _warn_of_empty_answers(report["quality"].get("task"), passed=verdict["passed"])
    if (lost := find_hidden_loss(report)) is not None:
        warnings.append(
            f'the SNR is good, but the task loses {lost:.1f} %: the goal "{TASK_GOAL}" looks for a model that loses '
            "less"
        )
    silent = [output["name"] for output in outputs if output.get("silent_samples")]
    warnings += [f"output {name!r} is all zero for some samples, which have no SNR" for name in silent]
    warnings += [
        f"samples that do not count in the SNR of output {output['name']!r}, since it is nearly silent there in float "
        f"and in 8 bits: {output['uncounted_samples']}"
        for output in outputs
        if output.get("uncounted_samples")
    ]
    warnings += [
        f"samples with values in output {output['name']!r} where float has only zeros: "
        f"{output['beside_zero_samples']}; their SNR is that of a signal 60 dB below the usual one"
        for output in outputs
        if output.get("beside_zero_samples")
    ]
    warnings += [
        f"output {output['name']!r} is nearly 0 everywhere for {output['faint_samples']} samples, which are judged "
        "before its Sigmoid: pictures that show what the model looks for would say more"
        for output in outputs
        if output.get("faint_samples")
    ]
    if verdict.get("weak"):
        warnings.append(
            f"judged pictures on which the output is 20 dB weaker than usual: {verdict['weak']}; no picture may be "
            "below the floor, and there their noise is held against a hundredth of the usual power"
        )
    if verdict["snr_db"] is None:
        warnings.append(
            "no output has an SNR, since all are zero in these pictures, or have another shape in 8 bits: the "
            "preprocessing may be wrong, or the pictures do not show what the model looks for"
        )
    elif not verdict["passed"] and not verdict["nothing_quantized"]:
        searched = AFTER_A_CUT_SEARCH if report.get("search", {}).get("is_cut") else AFTER_A_SEARCH
        advice = searched if report.get("goal") else WITHOUT_A_SEARCH
        warnings.append(f"the worst output has an SNR of {_describe_miss(verdict)}: {advice}")
    elif verdict.get("snr_min_db", SNR_DB_MIN) < SNR_DB_MIN and not report.get("judgement", {}).get("is_own_set"):
        warnings.append(
            f"the lowest of the pictures that were not used to choose ranges has {verdict['snr_min_db']} dB, below "
            f"{SNR_DB_MIN:g} dB: on other scenes even the mean may be; pictures of the place where the model will work "
            "(--report-images) tell"
        )
    return [*warnings, *_describe_shortfall(report.get("search", {}).get("shortfall"))]


def _warn_of_empty_answers(task: Mapping[str, Any] | None, *, passed: bool) -> list[str]:
    """Warns if the float model finds nothing in the pictures, or something in few of them where the verdict is bad."""
    answered = task.get("answered") if task and task["kind"] in FINDERS else None
    if not task or answered is None or answered >= (1 if passed else ANSWERED_LEAST * task["n"]):
        return []
    if not answered:
        return [
            "the float model finds nothing in these pictures, so its outputs and their SNR show little of what it is "
            "for: give pictures of what it looks for"
        ]
    return [
        f"the float model finds something in only {answered} of these {task['n']} pictures, so its outputs and their "
        "SNR show little of what it is for: give pictures of what it looks for"
    ]


def _describe_shortfall(measured: Mapping[str, Any] | None) -> list[str]:
    """Returns what a search measured of the pictures that keep it from its goal, and of the layers that cost most
    there."""
    if measured is None:
        return []
    names, layers = ", ".join(measured["pictures"]), ", ".join(name for name, _ in measured["layers"])
    signal, noise = (10 ** (measured[level] / 20) for level in ("signal_db", "noise_db"))
    lines = [
        f"lowest are {names} with {measured['snr_db']:.1f} dB: outputs {signal:.2g} times, errors {noise:.2g} times as "
        "large as usual"
    ]
    is_beyond_16_bits, wide_db = measured["code"] == SIXTEEN_BITS, f"{measured['wide_db']:.1f} dB"
    if is_beyond_16_bits:
        drop = measured.get("wide_drop")
        lines.append(
            f"even 16 bits for all tensors give them only {wide_db}"
            if drop is None
            else f"even with 16 bits for all tensors {drop:.1f} % of the task are lost"
        )
    if not measured.get("is_whole", True):
        lines.append(
            "there was no time to look for the layers that cost most there; 16 bits for all tensors give these "
            f"pictures {wide_db}"
        )
    elif layers and is_beyond_16_bits:
        lines.append(f"with {layers} in float besides, they have {measured['layers_db']:.1f} dB")
    elif layers:
        lines.append(
            f"{layers} cost most there: in float, they give these pictures {measured['layers_db']:.1f} dB; 16 bits for "
            f"all tensors give {wide_db}"
        )
    elif not is_beyond_16_bits:
        lines.append(f"no single layer costs much there; 16 bits for all tensors give these pictures {wide_db}")
    if (left := measured.get("layers_drop")) is not None:
        lines.append(f"with these layers in float {left:.1f} % of the task are lost")
    return lines


def _describe_miss(verdict: Mapping[str, Any]) -> str:
    snr_db = verdict["snr_db"]
    if "judged_on" not in verdict:
        return f"{snr_db} dB, below {SNR_DB_MIN:g} dB"
    if snr_db < SNR_DB_MIN:
        return f"{snr_db} dB on pictures that were not used to choose ranges, below {SNR_DB_MIN:g} dB"
    lowest = f"the lowest of them {verdict['snr_min_db']} dB"
    return f"{snr_db} dB on pictures that were not used to choose ranges, but {lowest}"


def summary_of(report: Mapping[str, Any]) -> JsonObject:
    """Returns the few numbers that the record keeps."""
    verdict = report["verdict"]
    cosines = [c for output in report["quality"]["outputs"] if (c := output["cosine"]["mean"]) is not None]
    return {
        "snr_db": verdict["snr_db"],
        "cosine": min(cosines, default=None),
        "passed": None if verdict["nothing_quantized"] else verdict["passed"],
        "samples": report["quality"]["samples"],
        "size_bytes": report["size"]["int8_bytes"],
        "latency_ms": report["latency_ms"]["int8"],
        **({"saturation": report["saturation"]} if report.get("saturation") else {}),
        **_summarize_predictions(report.get("search", {}).get("candidates", ())),
    }


def _summarize_predictions(candidates: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the mean error, in dB, of the SNR that was predicted for candidates; empty without any."""
    errors = [abs(one["snr_db"] - one["expected_db"]) for one in candidates if one.get("expected_db") is not None]
    return {"expected_off_db": round(fmean(errors), 2)} if errors else {}


def print_report(report: Mapping[str, Any]) -> None:
    """Prints the result to the log of the stage."""
    size, latency, tail = report["size"], report["latency_ms"], report["quantization"]["float_tail"]
    if tail["nodes"]:
        print(f"{tail['reason']}: {tail['nodes']} nodes")
    for output in report["quality"]["outputs"]:
        note = f"; after a {output['saturates']}, which hides errors: see the layers" if "saturates" in output else ""
        print(
            f"output {output['name']}: SNR {output['snr_db']['mean']} dB, mean of {output['snr_db']['n']} samples{note}"
        )
    print(f"size {size['float_bytes']} → {size['int8_bytes']} bytes")
    print(f"latency, 1 thread: {latency['float']} → {latency['int8']} ms")
    for warning in report["warnings"]:
        print(f"warning: {warning}")
