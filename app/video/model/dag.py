"""The DAG of a job: which stages, in which order, and whose outputs each of them gets."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NotRequired

from typing_extensions import TypedDict

from app.inference.broadcast import Broadcast
from app.inference.frame_gate import EVERY_FRAME, STILL_S, FrameGate
from app.inference.region import read_region
from app.kit.text.json_values import JsonObject
from app.video.model.drawn_video import Recording, read_broadcast, read_recording
from app.video.model.flow import MAX_STAGES, ancestors, read_flow, topological_order
from app.video.model.flow import READER as _READER
from app.video.model.kinds import CLIP, GENERATORS, RENDER, RENDERED, STAGE_SPEC, StageSpec
from app.video.model.reader import NAME, shorten_value

MAX_STILL_S = 86_400.0
MAX_FIELDS = 32
MAX_VARIANTS = 3
MAX_MODELS = 8


class StageDocument(TypedDict):
    """A stage that a DAG declares itself."""

    kind: str
    models: list[str | list[str]]
    """By model_id: big, medium, small; of a kind that needs several models each entry names that many."""
    parameters: NotRequired[dict[str, str | float | bool] | None]


class GateDocument(TypedDict, total=False):
    """Which frames are processed."""

    region: str | None
    """The part of the picture that is looked at, as x1,y1,x2,y2, each 0 to 1."""
    motion: float
    """Share of the pixels that must have changed; 0: every frame."""
    still_s: float
    """Seconds after which a frame is processed although nothing has moved."""


class DagDocument(TypedDict):
    """A DAG as it is written."""

    generator: str
    flow: list[str] | dict[str, list[str]]
    """[generator, stage, …], where each waits for the one before, or {stage: [stage or generator, …]}."""
    input: dict[str, dict[str, str]]
    """stage, or Render → field → stage.output."""
    stages: NotRequired[dict[str, StageDocument] | None]
    gate: NotRequired[GateDocument | None]
    recording: NotRequired[Recording | None]
    """Keep its drawn picture on the node."""
    broadcast: NotRequired[Broadcast | None]
    """Push its drawn picture to the node's media server."""


KEYS, GATE, STAGE = (tuple(document.__annotations__) for document in (DagDocument, GateDocument, StageDocument))


@dataclass(frozen=True)
class Reference:
    """`face_detection.bbox`: an output of a stage or of the generator."""

    source: str
    field: str

    def __str__(self) -> str:
        return f"{self.source}.{self.field}"


@dataclass(frozen=True)
class Dag:
    """The stages of a job and their connections."""

    generator: str
    stages: tuple[str, ...]
    """Each after everything it needs."""
    before: Mapping[str, frozenset[str]]
    """stage → the stages it waits for: those of `flow` and those it has inputs from; without the generator."""
    inputs: Mapping[str, Mapping[str, Reference]]
    """stage, or Render → field → the output that it gets."""
    flow: Any
    """As it was written, a list or a graph."""
    own: Mapping[str, StageSpec] = field(default_factory=dict)
    """Stages that the job itself declares, which take precedence over the catalog."""
    gate: FrameGate = EVERY_FRAME
    recording: Recording | None = None
    """None: its drawn picture is not recorded."""
    broadcast: Broadcast | None = None
    """None: its drawn picture is not broadcast."""

    def to_json(self) -> JsonObject:
        """In the requirement's format: {generator, flow, input} and, if the job has any, stages."""
        written: JsonObject = {
            "generator": self.generator,
            "flow": copy.deepcopy(self.flow),
            "input": {
                stage: {name: str(reference) for name, reference in fields.items()}
                for stage, fields in self.inputs.items()
            },
        }
        if self.own:
            specs = {name: STAGE_SPEC.write(spec) for name, spec in self.own.items()}
            written["stages"] = {name: {key: spec[key] for key in STAGE} for name, spec in specs.items()}
        if self.gate != EVERY_FRAME:
            written["gate"] = _gate_to_json(self.gate)
        if self.recording is not None:
            written["recording"] = self.recording.to_json()
        if self.broadcast is not None:
            written["broadcast"] = self.broadcast.to_json()
        return written

    def ancestors(self) -> dict[str, frozenset[str]]:
        """stage → all stages that have ended when it starts; without the generator."""
        return ancestors(self.stages, self.before)


def read_dag(data: object) -> Dag:
    """Parses the DAG of a job.

    Args:
        data: See DagDocument. recording, broadcast: see read_recording, read_broadcast.

    Raises:
        BadDag: It has another form: an unknown generator, a flow without it, a stage twice, a cycle, a reference
            to what does not come before, no Render with image and count. The message names the place.
    """
    document = _READER.mapping(data, "dag", most=len(KEYS))
    _READER.only_keys(document, "dag", KEYS)
    for key in KEYS[:3]:
        if key not in document:
            raise _READER.problem(f"dag.{key}", "is missing")
    generator = _READER.choice(document["generator"], "dag.generator", tuple(GENERATORS))
    flow, waits = read_flow(document["flow"], generator)
    stages = topological_order(waits)
    inputs = _read_inputs(document["input"], generator, stages, ancestors(stages, waits))
    before = {
        stage: waits[stage] | {reference.source for reference in inputs.get(stage, {}).values()} - {generator}
        for stage in stages
    }
    own, gate = _read_own_stages(document.get("stages"), stages), _read_gate(document.get("gate"), generator)
    recording = read_recording(document.get("recording"), _READER)
    broadcast = read_broadcast(document.get("broadcast"), _READER)
    return Dag(generator, stages, before, inputs, flow, own, gate, recording, broadcast)


def _read_inputs(
    data: object, generator: str, stages: tuple[str, ...], ancestors_of: Mapping[str, frozenset[str]]
) -> dict[str, dict[str, Reference]]:
    inputs_by_stage = _READER.mapping(data, "dag.input", most=MAX_STAGES + 1)
    for stage in inputs_by_stage:
        if stage != RENDER and stage not in stages:
            raise _READER.problem(
                f"dag.input.{stage[:64]}", "is no stage of the flow", f"There are {', '.join(stages)}."
            )
    if RENDER not in inputs_by_stage:
        raise _READER.problem(f"dag.input.{RENDER}", "is missing", "It says which image and which count are shown.")
    inputs = {}
    for stage, fields in inputs_by_stage.items():
        place = f"dag.input.{stage}"
        inputs[stage] = {
            _READER.name(name, place): _read_reference(
                value, f"{place}.{name}", generator, ancestors_of.get(stage, set(stages))
            )
            for name, value in _READER.mapping(fields, place, most=MAX_FIELDS).items()
        }
    for needed in RENDERED:
        if needed not in inputs[RENDER]:
            raise _READER.problem(f"dag.input.{RENDER}.{needed}", "is missing", "Render needs image and count.")
    return inputs


def _read_reference(data: object, place: str, generator: str, earlier: Set[str]) -> Reference:
    source, dot, output = data.partition(".") if isinstance(data, str) else ("", "", "")
    if not dot or not NAME.fullmatch(source) or not NAME.fullmatch(output):
        raise _READER.problem(place, f"{shorten_value(data)} is no reference", 'Write "stage.output".')
    if source != generator and source not in earlier:
        raise _READER.problem(
            place,
            f"refers to {source}, which does not come before it",
            f"Before it come {', '.join([generator, *sorted(earlier)])}.",
        )
    return Reference(source, output)


def _read_gate(data: object, generator: str) -> FrameGate:
    if data is None:
        return EVERY_FRAME
    fields = _READER.mapping(data, "dag.gate", most=len(GATE))
    _READER.only_keys(fields, "dag.gate", GATE)
    motion = _READER.number(fields.get("motion", 0), "dag.gate.motion")
    still_s = _READER.number(fields.get("still_s", STILL_S), "dag.gate.still_s")
    if not 0 <= motion <= 1:
        raise _READER.problem("dag.gate.motion", "is a share of the pixels, from 0 to 1")
    if not 0.1 <= still_s <= MAX_STILL_S:
        raise _READER.problem("dag.gate.still_s", f"is a number of seconds from 0.1 to {MAX_STILL_S:g}")
    if motion and generator == CLIP.name:
        raise _READER.problem(
            "dag.gate.motion", f"does not work with {CLIP.name}", "Its stages look at motion themselves."
        )
    text = _READER.text(fields["region"], "dag.gate.region") if fields.get("region") else ""
    try:
        return FrameGate(read_region(text) if text else None, motion, still_s)
    except ValueError as error:
        raise _READER.problem("dag.gate.region", f"is {error}") from None


def _gate_to_json(gate: FrameGate) -> JsonObject:
    region = {"region": str(gate.region)} if gate.region is not None else {}
    return {**region, **({"motion": gate.motion, "still_s": gate.still_s} if gate.motion else {})}


def _read_own_stages(data: object, stages: tuple[str, ...]) -> dict[str, StageSpec]:
    if data is None:
        return {}
    specs = {}
    for name, value in _READER.mapping(data, "dag.stages", most=MAX_STAGES).items():
        place = f"dag.stages.{_READER.name(name, 'dag.stages')}"
        if name not in stages:
            raise _READER.problem(place, "is no stage of the flow", f"There are {', '.join(stages)}.")
        specs[name] = _read_spec(name, value, place)
    return specs


def _read_spec(name: str, data: object, place: str) -> StageSpec:
    fields = _READER.mapping(data, place, most=MAX_FIELDS)
    _READER.only_keys(fields, place, STAGE)
    for key in ("kind", "models"):
        if key not in fields:
            raise _READER.problem(f"{place}.{key}", "is missing")
    variants = _READER.sequence(fields["models"], f"{place}.models", most=MAX_VARIANTS)
    return StageSpec(
        name,
        _READER.name(fields["kind"], f"{place}.kind"),
        tuple(_read_models(each, f"{place}.models[{index}]") for index, each in enumerate(variants)),
        _read_parameters(fields.get("parameters"), f"{place}.parameters"),
    )


def _read_models(data: object, place: str) -> tuple[str, ...]:
    """A variant: a name, or several for a kind that needs several."""
    names = [data] if isinstance(data, str) else _READER.sequence(data, place, most=MAX_MODELS)
    if not names:
        raise _READER.problem(place, "names no model")
    return tuple(_READER.text(name, place) for name in names)


def _read_parameters(data: object, place: str) -> dict[str, str]:
    if data is None:
        return {}
    return {
        _READER.name(key, place): (
            _READER.text(value, f"{place}.{key}")
            if isinstance(value, str)
            else _to_scalar_text(value, f"{place}.{key}")
        )
        for key, value in _READER.mapping(data, place, most=MAX_FIELDS).items()
    }


def _to_scalar_text(value: object, place: str) -> str:
    """A number or a truth value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    number = _READER.number(value, place)
    return str(value) if isinstance(value, int) else repr(number)
