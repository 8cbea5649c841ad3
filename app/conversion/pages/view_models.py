"""How pages show a job: its parameters, its files, its expiry. Pure; the texts are in the templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.conversion import object_keys
from app.conversion.model import TASK, Artifact, JobRecord, Stage, StageRecord, StageState
from app.conversion.options import Options, ToolchainName
from app.conversion.service.results import StoredArtifact
from app.kit.clock import from_text
from app.kit.web.filters import file_size

OUTPUTS = tuple(f"out.{stage.step}" for stage in Stage)
INPUTS = (object_keys.MODEL, object_keys.IMAGES)


@dataclass(frozen=True)
class Parameter:
    """An option and its value."""

    name: str
    value: str
    is_default: bool


@dataclass(frozen=True)
class FileView:
    """A file of the job."""

    name: str
    kind: str
    """output, report, log, input or other."""
    size_bytes: int
    sha256: str


def parameters(options: Options) -> list[Parameter]:
    """Returns every option that applies to the job's toolchain, those that differ from the default first."""
    chosen = dict(_iterate_leaves(options.model_dump(mode="json")))
    usual = dict(_iterate_leaves(Options.model_construct(toolchain=options.toolchain).model_dump(mode="json")))
    own, other = "quantization.", "kneron."
    if options.toolchain is ToolchainName.KNERON:
        own, other = other, own
    rows = [
        Parameter(name.removeprefix(own), _to_text(value), usual.get(name) == value)
        for name, value in chosen.items()
        if not name.startswith(other) and value is not None and name != "toolchain"
    ]
    return sorted(rows, key=lambda parameter: parameter.is_default)


def _iterate_leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict) and name != "input_shapes":
            yield from _iterate_leaves(value, f"{above}{name}.")
        elif value != {}:
            yield above + name, value


def _to_text(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case list():
            return ", ".join(_to_text(entry) for entry in value) or "none"
        case dict():
            return "; ".join(f"{name}: {' × '.join(map(str, shape))}" for name, shape in value.items())
    return str(value) or "none"


def files(artifacts: Mapping[str, Artifact]) -> list[FileView]:
    """Returns the outputs in the order of the stages, then reports, logs and other files, then the inputs."""
    order = ("output", "report", "other", "log", "input")
    rows = [
        FileView(name, _get_kind(name), artifact.size_bytes, artifact.sha256) for name, artifact in artifacts.items()
    ]
    return sorted(rows, key=lambda file: (order.index(file.kind), _place(file.name), file.name))


def split_artifacts(files: Iterable[StoredArtifact]) -> tuple[list[StoredArtifact], list[StoredArtifact]]:
    """Returns the outputs in the order of the stages, and the other files."""
    in_order = sorted(files, key=lambda file: (_place(file.name), file.name))
    return [f for f in in_order if _get_kind(f.name) == "output"], [
        f for f in in_order if _get_kind(f.name) != "output"
    ]


def _get_kind(name: str) -> str:
    if name in OUTPUTS:
        return "output"
    if name in INPUTS:
        return "input"
    stem, _, ending = name.rpartition(".")
    if stem in {stage.step for stage in Stage}:
        return {"json": "report", "log": "log"}.get(ending, "other")
    return "other"


def _place(name: str) -> int:
    steps = [stage.step for stage in Stage]
    return next((at for at, step in enumerate(steps) if step in name.split(".")), len(steps))


def find_training_task(record: JobRecord) -> str:
    """Returns the id of the training task that made the model; empty if none did."""
    return record.origin.removeprefix(TASK) if record.origin.startswith(TASK) else ""


def find_source_uri(record: JobRecord) -> str:
    """Returns the URI that the model was fetched from; empty if it was not fetched."""
    return record.origin if ":/" in record.origin else ""


def took_s(record: JobRecord) -> float | None:
    """Returns the seconds from submission to end."""
    if record.finished_at is None:
        return None
    return max(0.0, (from_text(record.finished_at) - from_text(record.created_at)).total_seconds())


def ran_s(stage: StageRecord) -> float | None:
    if stage.started_at is None or stage.finished_at is None:
        return None
    return max(0.0, (from_text(stage.finished_at) - from_text(stage.started_at)).total_seconds())


def log_stage(record: JobRecord) -> Stage:
    """Returns the stage whose log to open: the running or failed one; for a finished job the first."""
    if record.error is not None or not record.is_terminal:
        started = [stage for stage in Stage if record.stages[stage.step].state is not StageState.WAITING]
        return started[-1] if started else Stage.ONNX
    return Stage.BIE


def facts(detail: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the details of an error that a reader can use: names and short values, sizes with their unit."""
    return [
        (
            name.removesuffix("_bytes").replace("_", " "),
            file_size(value) if name.endswith("_bytes") else _to_text(value),
        )
        for name, value in detail.items()
        if _is_short(value)
    ]


def _is_short(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(entry, str | int | float) for entry in value)
    return isinstance(value, str | int | float) and value != ""
