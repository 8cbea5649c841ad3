"""The commands about services."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.kit.cli.command import EPILOG, CommandFailed, Exit, Unreachable
from app.kit.cli.document_files import read_file
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson, Limit, token
from app.kit.cli.tables import print_record, print_table
from app.kit.errors import BadRequest, NotFound
from app.kit.text.json_values import JsonObject
from app.standalone.camera import CAMERA, CAMERA_HELP, DEVICE_HELP

if TYPE_CHECKING:
    from app.joint_inference.client import JointClient
    from app.joint_inference.sedna import SednaModel

POLL_S = 1.0
PATIENCE_S = 60.0
"""How long the service may be away while somebody watches."""
SEE = "`modelmill joint list` shows those there are."
FullName = Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="The service; default namespace: `default`.")]
commands = ServiceCommands(
    "app.joint_inference.client:JointClient",
    help="Joint inference: a small model at the edge, hard samples to a big one in the cloud.",
)


@commands.command()
def apply(
    client: JointClient,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="Services as YAML or JSON; -: standard input.")
    ],
    as_json: AsJson = False,
) -> None:
    """Create or change services. The file may contain several documents, also Models of Sedna."""
    from app.joint_inference.cli.tables import full_name
    from app.joint_inference.sedna import read_model

    resources, records = read_resources(file), []
    models = [model for resource in resources if (model := read_model(resource))]
    if models:
        _apply_models(client, models, is_quiet=as_json)
    for resource in (resource for resource in resources if not read_model(resource)):
        record, is_new = client.apply(resource)
        records.append(record)
        if not as_json:
            typer.echo(f"{full_name(record['resource'])} {'created' if is_new else 'configured'}")
            for warning in record["warnings"]:
                typer.echo(f"warning: {warning}", err=True)
    if as_json:
        typer.echo(json.dumps(records, indent=2))


@commands.command("list")
def list_services(
    client: JointClient,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only services of this namespace.")] = None,
    state: Annotated[
        str | None, typer.Option(metavar="Pending|Running|Failed", help="Only services in this state.")
    ] = None,
    search: Annotated[str | None, typer.Option("--search", "-q", help="Text in the name.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List my services, newest first."""
    from app.joint_inference.cli.tables import services_table

    state_filter = state.capitalize() if state else None
    records = list(client.services(limit=limit, namespace=namespace, state=state_filter, q=search))
    print_table(records, partial(services_table, now=datetime.now(UTC)), "There are no services.", as_json=as_json)


@commands.command()
def show(
    client: JointClient,
    service: FullName,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Print again at each change, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a service: its state and the reason, its workers, their counters, and why a failed worker ended."""
    namespace, name = split_full_name(service)
    if watch:
        _watch(client, namespace, name, as_json=as_json)
        return
    typer.echo(_format_shown(client.service(namespace, name), as_json=as_json))


@commands.command()
def rollout(
    client: JointClient,
    service: FullName,
    action: Annotated[
        str,
        typer.Argument(
            metavar="[pause|resume|roll-back|retry|promote]", help="What to do; default: show the progress."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show the roll-out of a new edge model to the nodes of a service; pause, resume, roll back, retry or promote
    it."""
    from app.joint_inference.cli.tables import rollout_lines

    namespace, name = split_full_name(service)
    record = client.change_rollout(namespace, name, action) if action else client.service(namespace, name)
    lines = rollout_lines(record["rollout"]) if record["rollout"] else ["The service has no roll-out."]
    print_record(record["rollout"], "\n".join(lines), as_json=as_json)


@commands.command()
def delete(
    client: JointClient,
    service: FullName,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the workers have ended.")] = True,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="Longest time to wait. After it, the command ends with exit code 1."
        ),
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Delete a service, and stop its workers."""
    namespace, name = split_full_name(service)
    client.delete(namespace, name)
    if wait and not _is_gone(client, namespace, name, timeout):
        typer.echo(
            f"{namespace}/{name} is still being deleted: a node that is away ends its worker when it is back.", err=True
        )
        raise CommandFailed(Exit.FAILED)
    text = f"{namespace}/{name} {'deleted' if wait else 'is being deleted'}"
    print_record({"removed": f"{namespace}/{name}"}, text, as_json=as_json)


def _apply_models(client: JointClient, models: list[SednaModel], *, is_quiet: bool) -> None:
    """Before the services that name them."""
    from app.joint_inference.cli.sedna_models import apply_model
    from app.model_registry.client import ModelsClient

    with ModelsClient(client.url, token=token()) as registry:
        for model in models:
            done, warning = apply_model(registry, model)
            if not is_quiet:
                typer.echo(f"model {model.name} {done}")
            if warning:
                typer.echo(f"warning: {warning}", err=True)


def split_full_name(full_name: str) -> tuple[str, str]:
    """Splits 'ns/name' or 'name' into namespace and name.

    Raises:
        BadRequest: It has no name, or more than one slash.
    """
    namespace, _, name = full_name.rpartition("/")
    if not name or "/" in namespace:
        raise BadRequest(f"{full_name!r} is no service", hint="Write it as NAMESPACE/NAME, or as NAME.")
    return namespace or "default", name


def _format_shown(record: JsonObject, *, as_json: bool) -> str:
    from app.joint_inference.cli.tables import service_lines

    return json.dumps(record, indent=2) if as_json else "\n".join(service_lines(record))


def _watch(client: JointClient, namespace: str, name: str, *, as_json: bool) -> None:
    """Until it is gone, or Ctrl-C."""
    seen, heard_at = "", time.monotonic()
    try:
        while True:
            try:
                record = _find_service(client, namespace, name)
                heard_at = time.monotonic()
                if record is None and not seen:
                    raise NotFound(f"there is no service {namespace}/{name}", hint=SEE)
                if record is None:
                    typer.echo(f"{namespace}/{name} is gone", err=as_json)
                    return
                seen = _print_once(_format_shown(record, as_json=as_json), seen, gap="" if as_json else "\n")
            except Unreachable:
                if not seen or time.monotonic() - heard_at > PATIENCE_S:
                    raise
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        raise CommandFailed(Exit.CANCELLED) from None


def _print_once(text: str, seen: str, *, gap: str) -> str:
    """Once, not at every look."""
    if text != seen:
        typer.echo(f"{gap if seen else ''}{text}")
    return text


def _is_gone(client: JointClient, namespace: str, name: str, timeout_s: float) -> bool:
    """Within this time. One of the same name that was made anew meanwhile is another."""
    deadline, uid = time.monotonic() + timeout_s, ""
    while (record := _find_service(client, namespace, name)) is not None:
        present_uid = record["resource"]["metadata"]["uid"]
        uid = uid or present_uid
        if present_uid != uid:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _find_service(client: JointClient, namespace: str, name: str) -> JsonObject | None:
    from app.kit.cli.api_client import ApiError

    try:
        return client.service(namespace, name)
    except ApiError as error:
        if error.status != NotFound.status:
            raise
        return None


def path_of(service: str) -> str:
    """Of a service in the API. Raises as `parted`."""
    from app.joint_inference.client import path_of

    return path_of(*split_full_name(service))


def read_resources(file: str) -> list[Any]:
    """Returns all resources that the file holds; the errors in its text are those of `parse_documents`.

    Raises:
        NotFound: There is no file.
        BadRequest: It cannot be read.
    """
    from app.joint_inference.documents import parse_documents

    return parse_documents(read_file(file))


AT = (
    "Address of a Modelmill on this machine that needs no account. The nodes, models and service are added to it until "
    "this command ends."
)


@commands.command(epilog="Needs no root, no container and no other server. " + EPILOG)
def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the web server; 0: any free port.")] = 0,
    once: Annotated[bool, typer.Option("--once", help="Stop after the table, with exit code 0 or 1.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder with data and logs, and print its path.")
    ] = False,
    at: Annotated[str, typer.Option(metavar="URL", help=AT)] = "",
    camera: Annotated[bool, typer.Option("--camera", help=CAMERA_HELP)] = False,
    device: Annotated[str, typer.Option(metavar="DEVICE|URL", help=DEVICE_HELP)] = CAMERA,
    edge_model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --camera: ONNX at the edge; default: generated."),
    ] = None,
    cloud_model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --camera: ONNX in the cloud; default: generated."),
    ] = None,
) -> None:
    """Run a demonstration on this machine: a web server, an edge and a cloud node, two models, a service, and its
    benefit.

    With --camera the service reads a camera instead, until Ctrl-C; with --once, until the first picture is answered.
    """
    if at and camera:
        raise BadRequest("--at and --camera exclude each other.", hint="The camera is shown by a Modelmill of its own.")
    models = (edge_model, cloud_model) if edge_model and cloud_model else None
    if (edge_model or cloud_model) and not (models and camera):
        raise BadRequest("--edge-model and --cloud-model are given together, and with --camera.")
    # Small matrices: a thread of BLAS per core makes the training ten times slower where cores are shared.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if at:
        from app.joint_inference.cli.demo.attached import demonstrate_at

        raise CommandFailed(demonstrate_at(at))
    if camera:
        from app.joint_inference.cli.demo.camera import demonstrate_camera

        raise CommandFailed(demonstrate_camera(device, models, port=port, is_once=once, is_kept=keep))
    from app.joint_inference.cli.demo.show import demonstrate

    raise CommandFailed(demonstrate(port=port, is_once=once, is_kept=keep))
