"""Which service the commands of training talk to, and how a task and its changes are named to it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.kit.cli.partial_ids import SEARCHED_AT_MOST, only_match
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.training.client import TrainingClient

FULL_ID = re.compile(r".+-[0-9]{8}-[0-9]{6}-[0-9a-z]{4,}")

TaskId = Annotated[
    str, typer.Argument(metavar="TASK", help="Id of the task, or a part of the id that no other task has.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Another value of a field; an empty value removes it. Can be repeated."
    ),
]


def task_of(client: TrainingClient, part: str) -> JsonObject:
    """The record of the task whose id this is, or is a part of.

    Raises:
        NotFound: There is none.
        BadRequest: There are several, or the part is empty.
    """
    if FULL_ID.fullmatch(part):
        return client.task(part)
    matches = (record for record in client.tasks(limit=SEARCHED_AT_MOST, q=part) if part in record["task_id"])
    hint = "`modelmill train list` shows those there are."
    return client.task(only_match(matches, part, field="task_id", noun="task", hint=hint)["task_id"])


def task_id_of(client: TrainingClient, part: str) -> str:
    """The id of a task; a full id is taken as it is, because administrators name tasks of others."""
    return part if FULL_ID.fullmatch(part) else str(task_of(client, part)["task_id"])


def tell_changes(record: JsonObject) -> None:
    """What is not as in the task or sweep that it was made of."""
    for one in record["changes"]:
        typer.echo(f"{one['field']}: {_format_value(one['before'])} → {_format_value(one['after'])}", err=True)


def change_of(text: str) -> tuple[str, Any]:
    """A value is read as YAML is."""
    from app.training.spec.document import read_yaml

    field, sign, value = text.partition("=")
    if not sign or not field:
        raise BadRequest(f"{text} is no change", hint="Write it like total_epochs=3.")
    return field, read_yaml(value)


def _format_value(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
