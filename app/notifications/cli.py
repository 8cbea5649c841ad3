"""`modelmill notifications …`: targets, and the last messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_lines, print_record
from app.kit.text.json_values import JsonObject
from app.notifications.model import Kind

if TYPE_CHECKING:
    from app.notifications.client import NotificationsClient

TargetId = Annotated[str, typer.Argument(metavar="ID", help="Id of the target, as `list` shows it.")]
commands = ServiceCommands(
    "app.notifications.client:NotificationsClient",
    help="Notifications by webhook, e-mail or chat: list, add, test and remove targets; list messages.",
)


@commands.command("list")
def list_targets(client: NotificationsClient, as_json: AsJson = False) -> None:
    """List my targets."""
    targets = client.targets()
    print_lines(targets, _format_target, "There are no targets.", as_json=as_json)


@commands.command()
def add(
    client: NotificationsClient,
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
) -> None:
    """Add a target: a webhook, an e-mail address or a chat. The secret of a webhook is shown only once."""
    subject = "" if job is None else f"job:{client.find_job(job.lower())}"
    fields: JsonObject = {"events": event or [], "label": label, "subject": subject}
    target = client.add(kind, address, **fields)
    secret = f"\nsecret   {target['secret']}" if target["secret"] else ""
    test_hint = f"\n`modelmill notifications test {target['target_id']}` sends a test message."
    print_record(target, f"{target['target_id']} is added.{secret}{test_hint}", as_json=as_json)


@commands.command()
def test(client: NotificationsClient, target: TargetId, as_json: AsJson = False) -> None:
    """Send a test message to a target."""
    delivery = client.test(target)
    text = f"{delivery['delivery_id']} is on its way; `modelmill notifications messages` tells how it went."
    print_record(delivery, text, as_json=as_json)


@commands.command()
def remove(client: NotificationsClient, target: TargetId, as_json: AsJson = False) -> None:
    """Remove a target and its messages."""
    client.remove(target)
    print_record({"removed": target}, f"{target} is removed.", as_json=as_json)


@commands.command()
def messages(
    client: NotificationsClient,
    target: Annotated[str, typer.Option("--target", metavar="ID", help="Only messages to this target.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=200, help="Largest number of entries, newest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the last messages with their state."""
    deliveries = client.deliveries(target_id=target, limit=limit)
    print_lines(deliveries, _delivery_line, "There are no messages.", as_json=as_json)


@commands.command()
def redeliver(
    client: NotificationsClient,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="Id of the message, as `messages` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Send a message again, with the same id."""
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
