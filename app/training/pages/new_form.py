"""The form of a new task as flat text fields, and the spec they mean. Pure.

A field's name is that of the spec's field; those of `convert` are "convert.images" and "convert.model", and "convert"
itself is ticked when there is to be one. Lists and mappings are a line for each entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.kit.web.editor import Problems
from app.training.errors import UnreadableSpec
from app.training.model import Workload
from app.training.spec import TaskSpec, fields_not_of, write_spec
from app.training.spec.document import read_yaml, write_fields
from app.training.spec.sweeps import SweepDocument, read_sweep, read_task_or_sweep

Values = dict[str, str]
"""By field; "" for what belongs to none."""

TEXTS = (
    "name",
    "code_path",
    "program",
    "model_id",
    "model_path",
    "train_file",
    "val_file",
    "algorithm",
    "reward_model",
    "rollout",
    "best_metric",
    "resume_from",
    "priority",
    "environment",
    "cluster",
    "accelerator_type",
    "convert.images",
    "convert.model",
)
SWEEP = ("vary", "search", "most", "seed", "concurrency", "metric", "goal")
EARLY_STOP = "early_stop.min_steps"
"""Fields of a sweep."""
NUMBERS = (
    "nnodes",
    "n_gpus_per_node",
    "cpus_per_gpu",
    "cpus",
    "total_epochs",
    "total_training_steps",
    "save_freq",
    "test_freq",
    "keep_checkpoints",
    "keep_best",
    "max_wait_s",
    "max_run_s",
    "max_idle_s",
    "restart_on_infra",
    "most",
    "seed",
    "concurrency",
    EARLY_STOP,
)
LINES = ("args", "resources", "overrides")
FOLDS = {
    "checkpoints": ("save_freq", "keep_checkpoints", "keep_best", "best_metric", "resume_from"),
    "limits": ("max_wait_s", "max_run_s", "max_idle_s", "priority", "resources", "restart_on_infra", "backfill"),
    "sweep": (*SWEEP, EARLY_STOP),
}
"""Fields that are folded away, of which one group is open at a time."""
TICKS = ("backfill", "convert")
FIELDS = tuple(dict.fromkeys(("workload", *TEXTS, *NUMBERS, *LINES, *TICKS, *SWEEP)))
VALUE_MAX = 40_000
_WHOLE = re.compile(r"[+-]?[0-9]{1,12}")
_BROKEN = re.compile(r"[+-]?[0-9]{1,12}\.[0-9]{0,6}")


def empty_values(workload: Workload) -> Values:
    gpus = {Workload.SCRIPT: "0", Workload.SFT: "1"}.get(workload, "8")
    return {**dict.fromkeys(FIELDS, ""), "workload": workload.value, "n_gpus_per_node": gpus}


def hidden_fields(workload: Workload) -> frozenset[str]:
    """What the form does not ask of this workload; a script runs on one node."""
    return fields_not_of(workload) | ({"nnodes"} if workload is Workload.SCRIPT else set())


def folds_of(values: Mapping[str, str], problems: Problems) -> dict[str, tuple[int, bool]]:
    """Of each group of folded fields: how many are filled in, and whether it is open. Open is the first one with a
    problem, else the last one that is filled in."""
    counts = {name: sum(bool(values[field].strip()) for field in fields) for name, fields in FOLDS.items()}
    wrong = [name for name, fields in FOLDS.items() if not problems.keys().isdisjoint(fields)]
    filled = [name for name, count in counts.items() if count]
    opened = wrong[0] if wrong else filled[-1] if filled else ""
    return {name: (count, name == opened) for name, count in counts.items()}


def read_sent_values(sent: Mapping[str, str]) -> Values:
    """The fields as sent; unknown fields are omitted. An unknown workload becomes the first."""
    known = {name: sent.get(name, "")[:VALUE_MAX] for name in FIELDS}
    return {**known, "workload": workload_of(known["workload"]).value}


def workload_of(text: str) -> Workload:
    return Workload(text) if text in list(Workload) else Workload.PPO


def spec_of(values: Mapping[str, str]) -> tuple[TaskSpec | None, str, Problems]:
    """The spec and its text; with problems no spec, and as text what there is so far. Of a sweep the spec of its first
    task."""
    data, problems = _read_data(values)
    draft = str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100))
    if problems:
        return None, draft, problems
    try:
        spec, _, sweep = read_task_or_sweep(json.dumps(data).encode())
    except ModelmillError as error:
        return None, draft, problems_of(error)
    return spec, write_fields(data) if sweep else write_spec(spec), {}


def values_of(spec: TaskSpec, sweep: SweepDocument | None = None) -> Values | None:
    """The form that means this spec, or this sweep; None if the form has no field for something in it."""
    fields = (
        {**sweep.fields, **_read_sweep_fields(sweep)} if sweep else spec.model_dump(mode="json", exclude_defaults=True)
    )
    convert = fields.pop("convert", None) or {}
    values = dict.fromkeys(FIELDS, "")
    for name, value in {**fields, **{f"convert.{name}": value for name, value in convert.items()}}.items():
        if name in FIELDS:
            values[name] = _format_value(name, value)
    values["convert"] = "1" if convert else ""
    again, text, _ = spec_of(values)
    means_same = again == spec if sweep is None else again is not None and _is_same(read_sweep(text.encode()), sweep)
    return values if means_same else None


def _read_sweep_fields(sweep: SweepDocument) -> JsonObject:
    fields = sweep.spec.model_dump(mode="json", exclude_defaults=True)
    stop = sweep.spec.early_stop
    return fields | ({EARLY_STOP: stop.min_steps} if stop else {})


def _is_same(one: SweepDocument, other: SweepDocument) -> bool:
    return one.spec == other.spec and [*map(one.task_text, one.points)] == [*map(other.task_text, other.points)]


def problems_of(error: ModelmillError) -> Problems:
    """By the field of the form; what names none of them, or comes from elsewhere, is the form's."""
    listed: Sequence[Mapping[str, str]] = error.detail.get("problems", ())
    problems: Problems = {}
    for problem in listed:
        at = str(problem["at"])
        field = next((name for name in sorted(FIELDS, key=len, reverse=True) if f"{at}.".startswith(f"{name}.")), "")
        text = problem["problem"] if field in (at, "convert.images") else f"{at}: {problem['problem']}"
        problems.setdefault(field, text)
    if not problems:
        problems[""] = error
    return problems


def _read_data(values: Mapping[str, str]) -> tuple[JsonObject, Problems]:
    """What was filled in that goes with the workload, in the order of the spec's fields."""
    workload = workload_of(values["workload"])
    other = hidden_fields(workload)
    data: JsonObject = {"workload": workload.value}
    problems: Problems = {}
    for name in TaskSpec.model_fields:
        text = values.get(name, "").strip()
        if name in data or name in other or not text or name == "convert":
            continue
        try:
            data[name] = _parse_value(name, text)
        except UnreadableSpec as error:
            problems[name] = error.message
    if values["convert"]:
        parts = {name: values[f"convert.{name}"].strip() for name in ("model", "images")}
        data["convert"] = {name: text for name, text in parts.items() if text}
    if values["vary"].strip():
        _add_sweep(data, problems, values)
    return data, problems


def _add_sweep(data: JsonObject, problems: Problems, values: Mapping[str, str]) -> None:
    for name in (*SWEEP, EARLY_STOP):
        text = values[name].strip()
        if not text:
            continue
        try:
            value = read_yaml(text) if name == "vary" else _parse_value(name, text)
        except UnreadableSpec as error:
            problems[name] = error.message
            continue
        head, _, inner = name.partition(".")
        data[head] = {inner: value} if inner else value


def _parse_value(name: str, text: str) -> Any:
    if name == "args":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if name in ("overrides", "resources"):
        return read_yaml(text)
    if name == "backfill":
        return True
    if name not in NUMBERS:
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _BROKEN.fullmatch(text) else text  # which the spec then refuses, by its field


def _format_value(name: str, value: Any) -> str:
    if name == "args":
        return "\n".join(value)
    if name in ("overrides", "resources", "vary"):
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000))
    if name == "backfill":
        return "1" if value else ""
    return f"{value:g}" if isinstance(value, float) else str(value)
