"""Whether each input of a DAG's stages is of the type of the output that it gets."""

from __future__ import annotations

from collections.abc import Mapping

from app.video.model.dag import Dag
from app.video.model.flow import READER as _READER
from app.video.model.kinds import GENERATORS, RENDER, RENDERED, StageKind, Type


def check_types(dag: Dag, kinds: Mapping[str, StageKind]) -> None:
    """Checks the inputs of all stages and of Render.

    Args:
        kinds: The kind of each stage of the DAG, by the stage's name.

    Raises:
        BadDag: An input is missing, unknown, or of another type than the output it names.
    """
    outputs = {dag.generator: GENERATORS[dag.generator].outputs}
    outputs |= {stage: kinds[stage].outputs for stage in dag.stages}
    earlier = dag.ancestors()
    for stage in dag.stages:
        kind, before = kinds[stage], (dag.generator, *sorted(earlier[stage]))
        needed = [name for name in kind.inputs if name not in kind.optional]
        _check_inputs(dag, stage, kind.inputs, needed, {source: outputs[source] for source in before})
    _check_inputs(dag, RENDER, RENDERED, list(RENDERED), outputs)


def _check_inputs(
    dag: Dag, stage: str, takes: Mapping[str, Type], needed: list[str], outputs: Mapping[str, Mapping[str, Type]]
) -> None:
    """outputs: of all that comes before the stage: source → field → type."""
    place, references = f"dag.input.{stage}", dag.inputs.get(stage, {})
    for name in needed:
        if name not in references:
            raise _READER.problem(f"{place}.{name}", "is missing", _suggest_output(outputs, takes[name]))
    for name, reference in references.items():
        if name not in takes:
            raise _READER.problem(f"{place}.{name}", "is no input of it", f"It takes {', '.join(takes) or 'nothing'}.")
        produced = outputs[reference.source]
        if reference.field not in produced:
            raise _READER.problem(
                f"{place}.{name}",
                f"{reference.source} has no output {reference.field}",
                f"It has {', '.join(produced) or 'none'}. {_suggest_output(outputs, takes[name])}",
            )
        if produced[reference.field] != takes[name]:
            raise _READER.problem(
                f"{place}.{name}",
                f"{reference} is of type {produced[reference.field]}, not {takes[name]}",
                _suggest_output(outputs, takes[name]),
            )


def _suggest_output(outputs: Mapping[str, Mapping[str, Type]], type_: Type) -> str:
    fitting = [
        f"{source}.{name}"
        for source, fields in outputs.items()
        for name, field_type in fields.items()
        if field_type == type_
    ]
    return f"These would do: {', '.join(fitting)}." if fitting else f"Nothing before it has an output of type {type_}."
