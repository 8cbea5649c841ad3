"""List, add and remove nodes, and say who may use them; for administrators. A token goes to stdout, what was done to
stderr."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.access import words_of
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import Administrators, Allowed, AsJson, Everybody
from app.kit.cli.tables import print_lines, print_record
from app.kit.clock import age
from app.kit.errors import BadInput
from app.kit.text.json_values import JsonObject
from app.kit.text.labels import text_of

if TYPE_CHECKING:
    from app.nodes.client import NodesClient

commands = ServiceCommands(
    "app.nodes.client:NodesClient",
    help="The machines that run models: list, add, remove. `modelmill node` is the program that runs on each of them.",
)


PROBLEMS = {
    "order_problem": "it cannot store what it is told to run",
    "report_problem": "it cannot store what its workers report",
    "delivery_problem": "its reports wait, since the web server does not take them",
}
"""Fields of a node in words."""
SIDES = ("edge", "cloud", "host")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the node.")]


@commands.command("list")
def list_nodes(
    client: NodesClient,
    selector: Annotated[str, typer.Option(metavar="KEY=VALUE,…", help="Only nodes with these labels.")] = "",
    as_json: AsJson = False,
) -> None:
    """List all nodes, by name, with the number of workers."""
    nodes = client.nodes(selector)
    nothing = "There are no nodes. `modelmill nodes add NAME` adds one."
    print_lines(nodes, partial(_format_node, now=datetime.now(UTC)), nothing, as_json=as_json)


@commands.command()
def add(
    client: NodesClient,
    name: Name,
    side: Annotated[
        str, typer.Option(metavar="edge|cloud|host", help="Whether it is an edge node, a cloud node, or both (host).")
    ] = "edge",
    replace: Annotated[
        bool, typer.Option("--replace", help="Give a new token to an existing node; the old one becomes invalid.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add a node, and print its token, which is shown only once."""
    if side not in SIDES:
        raise BadInput(f"{side!r} is no side.", hint=f"It is one of {', '.join(SIDES)}.")
    registered = client.register(name, side, replace=replace)
    if as_json:
        typer.echo(json.dumps(registered, indent=2))
        return
    change = "has a new token, and the one before has ended" if replace else "is added"
    _print_note(f"Node {registered['name']} {change}. Its token is shown this once; on its machine run:")
    _print_note(f"  {registered['command']}")
    print(registered["token"])


@commands.command()
def label(
    client: NodesClient,
    name: Name,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE|KEY-]…", help="Labels to set; KEY- removes a label.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change the labels of a node, by which services and job sets select it. Without labels: print the current ones."""
    pairs = [(*change.partition("="), change) for change in changes or ()]
    unfit = next((change for key, mark, _, change in pairs if not (key if mark else key[:-1] and key[-1] == "-")), None)
    if unfit is not None:
        raise BadInput(f"{unfit!r} is no label.", hint="Give KEY=VALUE, or KEY- to remove one.")
    removed = {key.removesuffix("-") for key, mark, _, _ in pairs if not mark}
    before = client.node(name)["labels"]
    added = {key: value for key, mark, value, _ in pairs if mark}
    labels = {key: value for key, value in {**before, **added}.items() if key not in removed}
    if labels != before:
        labels = client.put_labels(name, labels)
    if labels or as_json:
        print_record(labels, "\n".join(f"{key}={value}" for key, value in sorted(labels.items())), as_json=as_json)


@commands.command()
def allow(
    client: NodesClient,
    name: Name,
    who: Allowed = None,
    everybody: Everybody = False,
    administrators: Administrators = False,
    owner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USER|@GROUP", help="Owner of the node, who may also change the access rule and the labels."
        ),
    ] = None,
    video: Annotated[str | None, typer.Option(metavar="ID", help="Only this video of the node.")] = None,
    source: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="Only this source, as the node offers it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set who may use a node or one of its cameras. Workloads of others on it are stopped. Without names: print the
    access rule."""
    if sum((bool(who), everybody, administrators)) > 1 or (video is not None and source is not None):
        raise BadInput(
            "These contradict each other.", hint="Give names, --everybody or --administrators, and one camera."
        )
    access = client.access(name)
    if owner:
        access = client.put_access(name, {**access, "owners": owner})
    if who or everybody or administrators:
        access = client.put_access(name, _change_access(access, None if everybody else who or [], video, source))
    print_record(access, "\n".join(_format_access(name, access)), as_json=as_json)


def _change_access(access: JsonObject, names: list[str] | None, video: str | None, source: str | None) -> JsonObject:
    kind, camera = ("videos", video) if video is not None else ("sources", source)
    if camera is None:
        return {**access, "allowed": names}
    others = {key: allowed for key, allowed in access[kind].items() if key != camera}
    return {**access, kind: others if names is None else {**others, camera: names}}


def _format_access(name: str, access: JsonObject) -> list[str]:
    cameras = [
        f"{name} {kind[:-1]} {camera}: {words_of(allowed)}"
        for kind in ("videos", "sources")
        for camera, allowed in access[kind].items()
    ]
    owners = [f"{name} owners: {words_of(access['owners'])}"] if access["owners"] else []
    return [f"{name}: {words_of(access['allowed'])}", *owners, *cameras]


@commands.command()
def remove(client: NodesClient, name: Name, as_json: AsJson = False) -> None:
    """Remove a node that runs nothing. Its token becomes invalid."""
    client.remove(name)
    text = f"modelmill: Node {name} is removed, and its token has ended."
    print_record({"removed": name}, text, as_json=as_json, is_note=True)


def _format_node(node: JsonObject, now: datetime) -> str:
    if node["is_online"]:
        state = "online"
    else:
        state = f"silent for {age(node['last_seen_at'], now)}" if node["last_seen_at"] else "never seen"
    states = node["worker_states"]
    count = sum(states.values())
    running = f"{states.get('RUNNING', 0)} of {count} workers run"
    if "UNKNOWN" in states:
        running = f"of {count} workers nothing is known"
    labels, tls = text_of(node["labels"]), node["tls"]
    if tls["is_serving"]:
        running += f", encrypted until {tls['expires_at'][:10]}"
    line = f"{node['name']:32}  {node['side']:5}  {state:20}  {running}{f'  {labels}' if labels else ''}"
    return "\n  ".join([line, *(f"{text}: {node[name]}" for name, text in PROBLEMS.items() if node.get(name))])


def _print_note(text: str) -> None:
    print(f"modelmill: {text}", file=sys.stderr)
