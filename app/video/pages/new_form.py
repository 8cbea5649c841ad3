"""The form of a new job as flat text fields, and the body of the requirement that they mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.inference.broadcast import PATH, Broadcast
from app.inference.frame_gate import STILL_S
from app.inference.region import read_region
from app.kit.text.json_values import JsonObject
from app.kit.web.editor import Problems
from app.video.model.constraint import DEFAULT_DELAY_S, LEVELS
from app.video.model.dag_inputs import StageInput, dag_of, wire_inputs
from app.video.model.drawn_video import MAX_HOURS, Recording
from app.video.model.job import Mode, RestartPolicy
from app.video.model.kinds import GENERATORS, RENDER, SINGLE_FRAME, StageKind
from app.video.scheduling.contract import DEFAULT

EXAMPLE = ("face_detection", "face_alignment")
"""Kinds of its stages."""
MAX_STAGES = 20
DEFAULTS: Mapping[str, str] = {
    "name": "",
    "video": "",
    "generator": SINGLE_FRAME.name,
    "stages": "",
    "delay_lo": "",
    "delay_hi": f"{DEFAULT_DELAY_S:g}",
    "acc_level": "0",
    "policy": DEFAULT,
    "restart_policy": RestartPolicy.EOS.value,
    "realtime": "on",
    "region": "",
    "motion": "",
    "record_hours": "",
    "broadcast_path": "",
    "mode": Mode.RUN.value,
}
FIELD_OF = {
    "VIDEO_NOT_FOUND": "video",
    "VIDEO_REFUSED": "video",
    "BAD_DAG": "dag",
    "BAD_STAGE": "dag",
    "BAD_CONSTRAINT": "delay_hi",
    "BAD_VIDEO_JOB_NAME": "name",
    "UNKNOWN_POLICY": "policy",
}
"""Code of an error → beside which field it stands."""


@dataclass(frozen=True)
class JobForm:
    """The form of a new job."""

    values: Mapping[str, str]
    """As typed."""
    stages: tuple[str, ...]
    """In their order."""
    inputs: tuple[StageInput, ...]
    """How they are wired."""

    def inputs_of(self, stage: str) -> list[StageInput]:
        return [one for one in self.inputs if one.stage == stage]


def read_form(sent: Mapping[str, str], kinds: Mapping[str, StageKind]) -> JobForm:
    """What is no field of ours is omitted, and one that was not sent has its default; an unticked box is not sent."""
    values = {name: sent.get(name, default).strip() for name, default in DEFAULTS.items()}
    if "video" in sent and "realtime" not in sent:
        values["realtime"] = ""
    stages = tuple(dict.fromkeys(name for name in values["stages"].split(",") if name))[:MAX_STAGES]
    stages = edit_stages(stages, sent.get("action", ""))
    if sent.get("action") == "example":
        stages = example_of(kinds) or stages
    chosen = {name: value for name, value in sent.items() if name.startswith("in.")}
    values["stages"] = ",".join(stages)
    return JobForm(values, stages, wire_inputs(values["generator"], stages, kinds, chosen))


def edit_stages(stages: tuple[str, ...], action: str) -> tuple[str, ...]:
    """action: add:, up:, down: or remove: with the name of a stage."""
    verb, _, name = action.partition(":")
    if verb == "add" and name and name not in stages:
        return (*stages, name)
    if name not in stages:
        return stages
    at, rest = stages.index(name), [one for one in stages if one != name]
    if verb in ("up", "down"):
        rest.insert(max(0, at - 1) if verb == "up" else at + 1, name)
    return tuple(rest) if verb in ("up", "down", "remove") else stages


def example_of(kinds: Mapping[str, StageKind]) -> tuple[str, ...]:
    """Faces and their poses, of the stages that there are; empty if one of the two is missing."""
    stages = [next((stage for stage, kind in kinds.items() if kind.name == name), "") for name in EXAMPLE]
    return tuple(stages) if all(stages) else ()


def body_of(form: JobForm) -> JsonObject:
    """The body of POST /user/submit_job, with what the product knows beside it."""
    values = form.values
    node, _, video = values["video"].partition("/")
    constraint, _ = constraint_of(values)
    return {
        **({"name": values["name"]} if values["name"] else {}),
        "node_addr": node,
        "video_id": video,
        "dag": dag_of(values["generator"], form.stages, form.inputs) | parts_of(values),
        "user_constraint": constraint,
        "policy": values["policy"],
        "restart_policy": values["restart_policy"],
        "realtime": bool(values["realtime"]),
        "mode": values["mode"],
    }


def parts_of(values: Mapping[str, str]) -> JsonObject:
    """What the DAG has beside its stages."""
    path = values["broadcast_path"]
    return gate_of(values) | recording_of(values) | ({"broadcast": {"path": path}} if path else {})


def gate_of(values: Mapping[str, str]) -> JsonObject:
    """The DAG's gate; empty without one."""
    gate: JsonObject = {"region": values["region"]} if values["region"] else {}
    gate |= {"motion": float(values["motion"]) / 100} if _is_number(values["motion"], 100) else {}
    return {"gate": gate} if gate else {}


def recording_of(values: Mapping[str, str]) -> JsonObject:
    """The DAG's recording; empty without one."""
    hours = values["record_hours"]
    return {"recording": {"hours": float(hours)}} if _is_number(hours, MAX_HOURS) else {}


def _is_number(text: str, most: float) -> bool:
    """Returns whether it is a number above 0, up to `most`."""
    try:
        return 0 < float(text) <= most
    except ValueError:
        return False


def problems_of(form: JobForm, kinds: Mapping[str, StageKind]) -> Problems:
    """What can be said before anything is asked of the service."""
    values, problems = form.values, {}
    if not values["video"]:
        problems["video"] = ""
    if values["generator"] not in GENERATORS:
        problems["generator"] = values["generator"]
    if not form.stages:
        problems["stages"] = ""
    for stage in form.stages:
        if stage not in kinds:
            problems["stages"] = stage
    for one in form.inputs:
        if not one.taken and not one.is_optional and form.stages:
            problems[one.name] = ""
    problems |= {
        name: ""
        for name, most in (("motion", 100), ("record_hours", MAX_HOURS))
        if values[name] and not _is_number(values[name], most)
    }
    if values["broadcast_path"] and PATH.fullmatch(values["broadcast_path"]) is None:
        problems["broadcast_path"] = ""
    try:
        read_region(values["region"] or "0,0,1,1")
    except ValueError:
        problems["region"] = ""
    _, wrong = constraint_of(values)
    return problems | wrong


def constraint_of(values: Mapping[str, str]) -> tuple[JsonObject, Problems]:
    """Returns the constraint, without what has a problem. delay_lo may be empty. An unreadable number is a problem with
    an empty text: the page has words for it."""
    problems: Problems = {}
    lo = _read_seconds(values, "delay_lo", problems) if values.get("delay_lo", "").strip() else -1.0
    hi = _read_seconds(values, "delay_hi", problems)
    if not problems and lo >= hi:
        problems["delay_lo"] = "order"
    constraint: JsonObject = {} if problems else {"delay": [lo, hi] if lo >= 0 else hi}
    level = values.get("acc_level", "").strip()
    if level not in {str(number) for number in range(len(LEVELS))}:
        problems["acc_level"] = ""
        return constraint, problems
    return {**constraint, "acc_level": int(level)}, problems


def _read_seconds(values: Mapping[str, str], name: str, problems: Problems) -> float:
    try:
        seconds = float(values.get(name, ""))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600 or (name == "delay_hi" and seconds == 0):
        problems[name] = ""
        return -1.0
    return seconds


def fields_of(body: Mapping[str, Any]) -> dict[str, str] | None:
    """The fields that mean this body; None if the form has none for something in it."""
    try:
        dag = body["dag"]
        flow, given = dag["flow"], dag["input"]
        stages = [name for name in (flow if isinstance(flow, list) else flow.keys()) if name != dag["generator"]]
        constraint = body.get("user_constraint") or {}
        lo, hi = _read_delay(constraint.get("delay", DEFAULT_DELAY_S))
        taken = {f"in.{stage}.{field}": str(where) for stage in given for field, where in given[stage].items()}
        gate = dag.get("gate") or {}
        recording, broadcast = dag.get("recording") or {}, dag.get("broadcast")
        is_plain = gate.get("still_s", STILL_S) == STILL_S and not (dag.get("stages") or {*given} - {*stages, RENDER})
        is_plain = is_plain and {**recording, "hours": 1.0} in ({"hours": 1.0}, Recording(1.0).to_json())
        is_usual = broadcast is None or {**broadcast, "path": ""} in ({"path": ""}, Broadcast().to_json())
        is_plain = is_plain and is_usual and (broadcast is None or bool(broadcast["path"]))
        if not is_plain or not all(isinstance(name, str) and "," not in name for name in stages):
            return None
        return {
            **DEFAULTS,
            **taken,
            "name": str(body.get("name") or ""),
            "video": f"{body.get('node_addr', '')}/{body.get('video_id', '')}",
            "generator": str(dag["generator"]),
            "stages": ",".join(stages),
            "delay_lo": f"{lo:g}" if lo >= 0 else "",
            "delay_hi": f"{hi:g}",
            "acc_level": str(_read_level(constraint)),
            "policy": str(body.get("policy") or DEFAULT),
            "restart_policy": str(body.get("restart_policy") or RestartPolicy.NEVER),
            "realtime": "on" if body.get("realtime", True) else "",
            "mode": str(body.get("mode") or Mode.RUN),
            "region": str(gate.get("region") or ""),
            "motion": f"{gate['motion'] * 100:g}" if gate.get("motion") else "",
            "record_hours": f"{recording['hours']:g}" if recording else "",
            "broadcast_path": str(broadcast["path"]) if broadcast else "",
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _read_delay(given: Any) -> tuple[float, float]:
    if isinstance(given, list):
        lo, hi = given
        return float(lo), float(hi)
    return -1.0, float(given)


def _read_level(constraint: Mapping[str, Any]) -> int:
    if "accuracy" not in constraint:
        return int(constraint.get("acc_level", 0))
    level = float(constraint["accuracy"])
    return LEVELS.index(level) if level <= 1 else min(int(level), len(LEVELS) - 1)
