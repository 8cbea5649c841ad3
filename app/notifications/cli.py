"""`modelmill notifications …`: targets, and the last messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.command import EPILOG
from app.kit.cli.service_options import AsJson, Url, token, url_of
from app.kit.cli.tables import print_lines, print_record
from app.kit.text.json_values import JsonObject
from app.notifications.model import Kind

if TYPE_CHECKING:
    from app.notifications.client import NotificationsClient

TargetId = Annotated[str, typer.Argument(metavar="ID", help="Id of the target, as `list` shows it.")]
commands = typer.Typer(
    help="Notifications by webhook, e-mail or chat: list, add, test and remove targets; list messages.",
    no_args_is_help=True,
    epilog=EPILOG,
)


@commands.command("list")
def list_targets(context: typer.Context, as_json: AsJson = False, url: Url = None) -> None:
    """List my targets."""
    with _open_client(context, url) as client:
        targets = client.targets()
    print_lines(targets, _format_target, "There are no targets.", as_json=as_json)


@commands.command()
def add(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="|".join(Kind), help="Kind of the target.")],
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="A URL, or an e-mail address for email.")],
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event",
            "-e",
            metavar="KIND",
            help="An event to be notified of, such as job.failed. Can be repeated; default: all events.",
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="ID", help="Id of a job, or its beginning, to be notified of this job only."),
    ] = None,
    label: Annotated[str, typer.Option(help="Name of the target.")] = "",
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Add a target: a webhook, an e-mail address or a chat. The secret of a webhook is shown only once."""
    with _open_client(context, url) as client:
        subject = "" if job is None else f"job:{client.find_job(job.lower())}"
        fields: JsonObject = {"events": event or [], "label": label, "subject": subject}
        target = client.add(kind, address, **fields)
    if as_json:
        typer.echo(json.dumps(target, indent=2))
        return
    typer.echo(f"{target['target_id']} is added.")
    if target["secret"]:
        typer.echo(f"secret   {target['secret']}")


@commands.command()
def test(context: typer.Context, target: TargetId, as_json: AsJson = False, url: Url = None) -> None:
    """Send a test message to a target."""
    with _open_client(context, url) as client:
        delivery = client.test(target)
    text = f"{delivery['delivery_id']} is on its way; `modelmill notifications messages` tells how it went."
    print_record(delivery, text, as_json=as_json)


@commands.command()
def remove(context: typer.Context, target: TargetId, as_json: AsJson = False, url: Url = None) -> None:
    """Remove a target and its messages."""
    with _open_client(context, url) as client:
        client.remove(target)
    print_record({"removed": target}, f"{target} is removed.", as_json=as_json)


@commands.command()
def messages(
    context: typer.Context,
    target: Annotated[str, typer.Option("--target", metavar="ID", help="Only messages to this target.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=200, help="Largest number of entries, newest first.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """List the last messages with their state."""
    with _open_client(context, url) as client:
        deliveries = client.deliveries(target_id=target, limit=limit)
    print_lines(deliveries, _delivery_line, "There are no messages.", as_json=as_json)


@commands.command()
def redeliver(
    context: typer.Context,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="Id of the message, as `messages` shows it.")],
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Send a message again, with the same id."""
    with _open_client(context, url) as client:
        delivery = client.redeliver(message)
    print_record(delivery, f"{message} is sent again.", as_json=as_json)


def _format_target(target: JsonObject) -> str:
    kinds = " ".join(target["events"]) or "everything"
    state = "" if target["is_enabled"] else f"  OFF {target['problem']}".rstrip()
    about = f"  {target['subject']}" if target["subject"] else ""
    return f"{target['target_id']}  {target['kind']:7}  {target['address']}{about}  {kinds}{state}"


def _delivery_line(one: JsonObject) -> str:
    problem = f"  {one['problem'].rstrip('.')}" if one["problem"] else ""
    again = f"; again {one['due_at']}" if problem and one["state"] == "PENDING" else ""
    words = (one["delivery_id"], one["created_at"], one["target_id"], f"{one['event_kind']:15}", one["state"])
    return "  ".join(words) + problem + again


def _open_client(context: typer.Context, url: str | None) -> NotificationsClient:
    from app.notifications.client import NotificationsClient

    return NotificationsClient(url_of(context, url), token=token())
