"""`modelmill notifications …`: targets, and the last messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.kit.cli.command import EPILOG
from app.kit.cli.service_options import AsJson, Url, token, url_of
from app.kit.cli.tables import print_lines

if TYPE_CHECKING:
    from app.notifications.client import NotificationsClient

TargetId = Annotated[str, typer.Argument(metavar="ID", help="Of the target, as `list` shows it.")]
commands = typer.Typer(
    help="Be told by webhook, e-mail or chat: list, add, test, remove; the last messages.",
    no_args_is_help=True,
    epilog=EPILOG,
)


@commands.command("list")
def list_targets(context: typer.Context, as_json: AsJson = False, url: Url = None) -> None:
    """Where I am told."""
    with _client(context, url) as client:
        targets = client.targets()
    print_lines(targets, _target_line, "There are no targets.", as_json=as_json)


@commands.command()
def add(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="webhook|email|chat")],
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="A URL; of email an e-mail address.")],
    event: Annotated[
        list[str] | None, typer.Option("--event", "-e", metavar="KIND", help="As job.failed; may be repeated.")
    ] = None,
    job: Annotated[str, typer.Option("--job", metavar="ID", help="Of this job alone.")] = "",
    label: Annotated[str, typer.Option(help="A name for it.")] = "",
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Be told by webhook, e-mail or chat. A webhook's secret is shown once."""
    fields: dict[str, Any] = {"events": event or [], "label": label, "subject": f"job:{job}" if job else ""}
    with _client(context, url) as client:
        target = client.add(kind, address, **fields)
    if as_json:
        typer.echo(json.dumps(target, indent=2))
        return
    typer.echo(f"{target['target_id']} is added.")
    if target["secret"]:
        typer.echo(f"secret   {target['secret']}")


@commands.command()
def test(context: typer.Context, target: TargetId, url: Url = None) -> None:
    """Send it a test message."""
    with _client(context, url) as client:
        delivery = client.test(target)
    typer.echo(f"{delivery['delivery_id']} is on its way; `modelmill notifications messages` tells how it went.")


@commands.command()
def remove(context: typer.Context, target: TargetId, url: Url = None) -> None:
    """Forget a target and its messages."""
    with _client(context, url) as client:
        client.remove(target)
    typer.echo(f"{target} is removed.")


@commands.command()
def messages(
    context: typer.Context,
    target: Annotated[str, typer.Option("--target", metavar="ID", help="Of this target alone.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many, newest first.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """The last messages, and how they went."""
    with _client(context, url) as client:
        deliveries = client.deliveries(target_id=target, limit=limit)
    print_lines(deliveries, _delivery_line, "There are no messages.", as_json=as_json)


@commands.command()
def redeliver(
    context: typer.Context,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="As `messages` shows it.")],
    url: Url = None,
) -> None:
    """Send a message once more, under the same id."""
    with _client(context, url) as client:
        client.redeliver(message)
    typer.echo(f"{message} is sent again.")


def _target_line(target: dict[str, Any]) -> str:
    kinds = " ".join(target["events"]) or "everything"
    state = "" if target["is_enabled"] else f"  OFF {target['problem']}".rstrip()
    about = f"  {target['subject']}" if target["subject"] else ""
    return f"{target['target_id']}  {target['kind']:7}  {target['address']}{about}  {kinds}{state}"


def _delivery_line(one: dict[str, Any]) -> str:
    return f"{one['delivery_id']}  {one['created_at']}  {one['event_kind']:15}  {one['state']:9}  {one['problem']}"


def _client(context: typer.Context, url: str | None) -> NotificationsClient:
    from app.notifications.client import NotificationsClient

    return NotificationsClient(url_of(context, url), token=token())
