"""`modelmill nodes cameras …`: list, add, change, remove the cameras of a node while its agent runs; for
administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_lines, print_record
from app.kit.errors import BadInput
from app.kit.text.json_values import JsonObject
from app.nodes.cli.node_commands import commands

if TYPE_CHECKING:
    from app.nodes.client import NodesClient

Node = Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")]
CameraId = Annotated[str, typer.Argument(metavar="ID", help="Id of the camera, 1000 or higher.")]
SOURCE = "A URL, or an absolute path on the node, that --source of its agent offers."
cameras = ServiceCommands(
    "app.nodes.client:NodesClient",
    help="Cameras that were added to a node while its agent was running: list, add, change, remove.",
)
commands.add_typer(cameras, name="cameras")


@cameras.command("list")
def list_cameras(client: NodesClient, node: Node, as_json: AsJson = False) -> None:
    """List the added cameras of a node. `modelmill video nodes` lists all videos."""
    added = client.cameras(node)
    nothing = f"None was added. `modelmill nodes cameras add {node} TYPE=SOURCE` adds one."
    print_lines(added, _format_camera, nothing, as_json=as_json)


@cameras.command()
def discovered(client: NodesClient, node: Node, as_json: AsJson = False) -> None:
    """List the cameras on the network of a node, if its agent was started with --discover."""
    seen = client.discovered_cameras(node)
    print_lines(seen, _format_discovered, "No camera has answered.", as_json=as_json)


@cameras.command()
def add(
    client: NodesClient,
    node: Node,
    camera: Annotated[str, typer.Argument(metavar="TYPE=SOURCE", help=f"Type and source of the camera. {SOURCE}")],
    as_json: AsJson = False,
) -> None:
    """Add a camera, and print its id."""
    kind, equals, source = camera.partition("=")
    if not equals or "/" in kind:
        raise BadInput(
            f"{camera!r} names no camera.", hint="It should look like 'entrance=rtsp://user:password@10.0.0.7/stream'."
        )
    added = client.add_camera(node, kind, source)
    print_record(added, added["id"], as_json=as_json)
    typer.echo(f"modelmill: {node} is told; `modelmill nodes cameras list {node}` and its page show it.", err=True)


@cameras.command()
def change(
    client: NodesClient,
    node: Node,
    camera_id: CameraId,
    type: Annotated[str | None, typer.Option(help="Type of the camera: what it shows.")] = None,
    source: Annotated[str | None, typer.Option(metavar="PATH|URL", help=SOURCE)] = None,
    as_json: AsJson = False,
) -> None:
    """Change a camera. Jobs that read it continue with the new source."""
    if type is None and source is None:
        raise BadInput("Nothing is to be changed.", hint="Give --type, --source, or both.")
    changed = client.change_camera(node, camera_id, type=type, source=source)
    print_record(changed, _format_camera(changed), as_json=as_json)


@cameras.command()
def remove(client: NodesClient, node: Node, camera_id: CameraId, as_json: AsJson = False) -> None:
    """Remove a camera that no job reads."""
    client.remove_camera(node, camera_id)
    text = f"modelmill: camera {camera_id} of {node} is removed."
    print_record({"removed": camera_id}, text, as_json=as_json, is_note=True)


def _format_discovered(camera: JsonObject) -> str:
    return f"{camera['address']:>15}  {camera['name']:24}  {camera['hardware']}".rstrip()


def _format_camera(camera: JsonObject) -> str:
    return f"{camera['id']:>5}  {camera['type']:24}  {camera['source']}"
