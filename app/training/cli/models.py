"""The commands about what a task leaves: its checkpoints, and models that go on to conversion and the registry."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record, print_table
from app.kit.errors import BadRequest, NotFound
from app.kit.text.json_values import JsonObject
from app.training.cli.service import TaskId, task_of

if TYPE_CHECKING:
    from app.training.client import TrainingClient

Artifact = Annotated[
    str,
    typer.Option(
        metavar="PATH", help="Path of the ONNX file in the folder of the task; required if there are several."
    ),
]


def checkpoints(client: TrainingClient, task: TaskId, as_json: AsJson = False) -> None:
    """List the checkpoints of a task, for `resume_from` of a new task."""
    from app.training.cli.tables import checkpoints_table

    answer = client.checkpoints(task_of(client, task)["task_id"])
    table = partial(checkpoints_table, metric=answer["metric"])
    print_table(answer["checkpoints"], table, "It has left no checkpoint.", as_json=as_json)


def export(
    client: TrainingClient,
    task: TaskId,
    checkpoint: Annotated[str, typer.Option(metavar="last|best|STEP", help="Checkpoint of the task.")] = "last",
    onnx: Annotated[bool, typer.Option("--onnx", help="Also export an ONNX model.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export a checkpoint as a model: a task writes it to models/ of your data home, as Hugging Face safetensors."""
    step = int(checkpoint) if checkpoint.isdecimal() else checkpoint
    task_id = task_of(client, task)["task_id"]
    record = client.export(task_id, step, onnx=onnx, idempotency_key=str(uuid.uuid4()))
    print_record(record, record["task_id"], as_json=as_json)


def convert(
    client: TrainingClient,
    task: TaskId,
    artifact: Artifact = "",
    images: Annotated[
        str,
        typer.Option(
            metavar="PATH", help="Path of the reference samples in your data home; default: those beside the model."
        ),
    ] = "",
    name: Annotated[str, typer.Option(help="Name of the conversion job.")] = "",
    as_json: AsJson = False,
) -> None:
    """Convert a model of a task, with the options that the task describes."""
    record = task_of(client, task)
    made = client.convert(
        record["task_id"],
        _choose_artifact(record, artifact),
        images=images,
        name=name,
        idempotency_key=str(uuid.uuid4()),
    )
    print_record(made, made["job_id"], as_json=as_json)


def register(
    client: TrainingClient,
    task: TaskId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the model.")],
    artifact: Artifact = "",
    new_version: Annotated[
        bool, typer.Option("--new-version", help="Add a version if there is a model of this name.")
    ] = False,
    note: Annotated[str, typer.Option(help="Note about this version.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add a model of a task to the model registry."""
    record = task_of(client, task)
    made = client.register(
        record["task_id"],
        _choose_artifact(record, artifact),
        name,
        new_version=new_version,
        note=note,
        idempotency_key=str(uuid.uuid4()),
    )
    print_record(made, f"{made['name']}@{made['version']}", as_json=as_json)


def _choose_artifact(record: JsonObject, artifact: str) -> str:
    """The model that is meant: the only one, if none is named."""
    if artifact:
        return artifact
    paths = [each["path"] for each in record["artifacts"]]
    if len(paths) == 1:
        return str(paths[0])
    if not paths:
        raise NotFound("the task has left no ONNX model", hint="It has to succeed first.")
    raise BadRequest(f"the task has left {len(paths)} models", hint=f"Name one with --artifact: {', '.join(paths)}.")
