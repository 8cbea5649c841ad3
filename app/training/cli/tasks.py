"""The commands about tasks and the cluster."""

from __future__ import annotations

import json
import shutil
import sys
import uuid
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.command import EPILOG, CommandFailed, Exit, Unreachable
from app.kit.cli.document_files import read_file
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson, Limit
from app.kit.cli.tables import print_record, print_table
from app.kit.cli.terminal_text import print_log
from app.kit.errors import BadRequest, NotFound
from app.kit.text.json_values import JsonObject
from app.training.cli.service import Changes, TaskId, change_of, task_id_of, task_of, tell_changes
from app.training.model import Workload

if TYPE_CHECKING:
    from app.training.client import TrainingClient

GOES_ON = "Ctrl-C while following leaves the task as it is; `modelmill train cancel` ends it. "

commands = ServiceCommands(
    "app.training.client:TrainingClient",
    help="Train on the Ray cluster: submit, list, show, follow, cancel.",
    epilog=GOES_ON + EPILOG,
)


@commands.command(epilog=GOES_ON + EPILOG)
def submit(
    client: TrainingClient,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The task as YAML or JSON; -: standard input.")],
    follow: Annotated[
        bool,
        typer.Option("--follow/--no-follow", "--wait/--no-wait", help="Follow the task to its end, or only submit it."),
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Folder for the results of the conversion that `convert:` requests."
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Longest time to follow. After it, the command ends with exit code 1, and the task continues.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Submit a task, and follow it: its state, its log, and the conversion that it requests."""
    from app.training.cli.task_follower import TaskFollower

    spec = read_file(file)
    record = _submit(client, spec)
    if not follow:
        print_record(record, record["task_id"], as_json=as_json)
        return
    following = TaskFollower(client, record["task_id"], timeout_s=timeout, is_quiet=as_json)
    record, job = following.to_the_end(), None
    if record["state"] == "SUCCEEDED":
        job = following.conversion(out)
    if as_json:
        typer.echo(json.dumps({"task": record, "job": job}, indent=2))
    _end(record, job)


@commands.command()
def again(
    client: TrainingClient,
    task: TaskId,
    changes: Changes = None,
    resume: Annotated[
        str | None, typer.Option(metavar="last|best|STEP", help="Continue from this checkpoint of the task.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Submit a task again, with other values (--set overrides.trainer.seed=2) or from a checkpoint."""
    values = dict(map(change_of, changes or ()))
    step = int(resume) if resume and resume.isdecimal() else resume
    record = client.again(task_of(client, task)["task_id"], values, resume=step, idempotency_key=str(uuid.uuid4()))
    if not as_json:
        tell_changes(record)
    print_record(record, record["task_id"], as_json=as_json)


@commands.command("list")
def list_tasks(
    client: TrainingClient,
    state: Annotated[
        str | None,
        typer.Option(metavar="QUEUED|PENDING_RESOURCES|RUNNING|SUCCEEDED|…", help="Only tasks in this state."),
    ] = None,
    workload: Annotated[
        str | None, typer.Option(metavar="|".join(Workload), help="Only tasks of this workload.")
    ] = None,
    search: Annotated[str | None, typer.Option("--search", "-q", help="Text in the id or the name.")] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME|*", help="Tasks of this user; *: of all users (administrators).")
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List my tasks, newest first."""
    from app.training.cli.tables import tasks_table

    filters = {"state": state.upper() if state else None, "workload": workload.lower() if workload else None}
    records = list(client.tasks(limit=limit, q=search, user=user, **filters))
    table = partial(tasks_table, now=datetime.now(UTC), shows_users=user is not None)
    print_table(records, table, "There are no tasks.", as_json=as_json)


@commands.command()
def show(client: TrainingClient, task: TaskId, as_json: AsJson = False) -> None:
    """Show a task: its state, why it waits, its attempts, and its files."""
    from app.training.cli.tables import task_lines

    record = task_of(client, task)
    print_record(record, "\n".join(task_lines(record)), as_json=as_json)


@commands.command()
def logs(
    client: TrainingClient,
    task: TaskId,
    tail: Annotated[int, typer.Option(min=1, max=5000, metavar="LINES", help="Number of lines from the end.")] = 2000,
    attempt: Annotated[
        int | None, typer.Option(min=1, max=999, metavar="NUMBER", help="Number of the attempt; default: the last one.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the task has ended.")] = False,
    search: Annotated[
        str, typer.Option("--search", "-q", metavar="TEXT", help="Only lines that contain this text.")
    ] = "",
    process: Annotated[
        str, typer.Option(metavar="NAME", help='Only lines of this process: "rank 3", or its name in Ray.')
    ] = "",
) -> None:
    """Print the end of the log of a task."""
    if follow and (search or process):
        raise BadRequest("--follow shows every line", hint="Leave out --search and --process, or --follow.")
    from app.training.cli.task_follower import TaskFollower

    task_id = task_of(client, task)["task_id"]
    if follow and attempt is None:
        TaskFollower(client, task_id, is_quiet=False, is_only_log=True, tail=tail).to_the_end()
        return
    print_log(client.log(task_id, tail=tail, attempt_no=attempt, text=search, process=process))


@commands.command()
def plot(
    client: TrainingClient,
    task: TaskId,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", metavar="NAME", help="Name of a curve. Can be repeated.")
    ] = None,
    time: Annotated[bool, typer.Option("--time", help="Plot over seconds instead of steps.")] = False,
    beside: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="TASK", help="Plot the curve of another task, too. Can be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plot the learning curves of a task. Without --metric: the names of all, and the first ones."""
    answer = client.metrics(task_of(client, task)["task_id"], names=metric or ())
    others = {one: client.metrics(task_of(client, one)["task_id"], names=metric or ()) for one in beside or ()}
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
        return
    missing = sorted(set(metric or ()) - set(answer["names"]))
    if missing:
        known = ", ".join(answer["names"]) or "none yet"
        raise NotFound(f"the task tells nothing of {', '.join(missing)}", hint=f"What it tells: {known}.")
    if not answer["series"]:
        typer.echo("It has told no figures yet.")
        return
    from app.training.cli.tables import MOST_DRAWN, curve_text, summary_line

    columns = min(shutil.get_terminal_size().columns, 100)
    for series in answer["series"][: None if metric else MOST_DRAWN]:
        drawn = {task: series, **_select_series(others, series["name"])}
        typer.echo(curve_text(drawn, columns=columns, by_time=time, has_color=sys.stdout.isatty()))
        for name, one in drawn.items():
            typer.echo(summary_line(one) if len(drawn) == 1 else f"{name}: {summary_line(one)}")
    if not metric and len(answer["names"]) > MOST_DRAWN:
        typer.echo(f"There are more (-m NAME): {', '.join(answer['names'])}")


@commands.command()
def cancel(client: TrainingClient, task: TaskId, as_json: AsJson = False) -> None:
    """Cancel a task. Administrators can cancel tasks of others by their full id."""
    record = client.cancel(task_id_of(client, task))
    state = "cancelled" if record["state"] == "CANCELED" else "being stopped, which takes some seconds"
    print_record(record, f"Task {record['task_id']} is {state}.", as_json=as_json)


@commands.command()
def priority(
    client: TrainingClient,
    task: TaskId,
    level: Annotated[
        str, typer.Argument(metavar="high|normal|low", help="The priority; only administrators may set high.")
    ],
    as_json: AsJson = False,
) -> None:
    """Change the priority of a waiting task. Administrators can change tasks of others by their full id."""
    task_id = task_id_of(client, task)
    record = client.set_priority(task_id, level)
    print_record(record, f"Task {record['task_id']} has priority {record['priority']}.", as_json=as_json)


@commands.command()
def release(client: TrainingClient, task: TaskId, as_json: AsJson = False) -> None:
    """Release a task that has been in cancellation for ten minutes without an answer from Ray.

    What still runs of it is stopped when Ray answers again. Administrators can release tasks of others by their full
    id.
    """
    record = client.release(task_id_of(client, task))
    print_record(record, f"Task {record['task_id']}: {record['error_summary']}", as_json=as_json)


@commands.command()
def stacks(client: TrainingClient, task: TaskId, as_json: AsJson = False) -> None:
    """Show the call stacks of the processes of a running task. Administrators see tasks of others by their full id."""
    processes = client.stacks(task_id_of(client, task))
    if as_json:
        typer.echo(json.dumps(processes, indent=2))
        return
    for one in processes:
        typer.echo(f"{one['name']}, process {one['pid']} on node {one['node_id'][:12]}\n{one['text']}\n")


@commands.command()
def cluster(client: TrainingClient, as_json: AsJson = False) -> None:
    """Show the nodes of each cluster, and the GPUs that tasks hold."""
    view = client.cluster()
    if as_json:
        typer.echo(json.dumps(view, indent=2))
        return
    from app.kit.cli.tables import wide_console
    from app.training.cli.tables import cluster_lines, nodes_table

    console = wide_console()
    for one in (view, *view["further"]):
        if view["further"]:
            console.print(f"cluster {one['name']}", markup=False, highlight=False)
        if one["nodes"]:
            console.print(nodes_table(one))
        for line in cluster_lines({**one, "is_on": view["is_on"]}):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def _select_series(answers: dict[str, JsonObject], name: str) -> JsonObject:
    """By task, of those that tell it."""
    return {task: one for task, answer in answers.items() for one in answer["series"] if one["name"] == name}


def _submit(client: TrainingClient, spec: bytes) -> JsonObject:
    """When the connection breaks nobody knows whether it was taken; asked again with the same key, it is so once."""
    key = str(uuid.uuid4())
    try:
        return client.submit(spec, idempotency_key=key)
    except Unreachable:
        return client.submit(spec, idempotency_key=key)


def _end(record: JsonObject, job: JsonObject | None) -> None:
    if record["state"] == "CANCELED":
        raise CommandFailed(Exit.CANCELLED)
    if record["state"] != "SUCCEEDED" or (job is not None and job["status"] != "COMPLETED"):
        raise CommandFailed(Exit.FAILED)
