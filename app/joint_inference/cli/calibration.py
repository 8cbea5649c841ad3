"""The commands that calibrate a service and watch it for drift."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.joint_inference.cli.services import POLL_S, FullName, split_full_name
from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.joint_inference.client import JointClient


def calibrate(
    client: JointClient,
    service: FullName,
    folder: Annotated[
        str,
        typer.Option(
            metavar="FOLDER", help="Folder of the data home; default: where the service collects hard samples."
        ),
    ] = "",
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Samples of this machine instead: a zip or folder of labeled pictures, or an .npz."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the calibration has ended.")] = True,
    as_json: AsJson = False,
) -> None:
    """Run both models on labeled pictures, and show the settings of the Pareto front."""
    if folder and samples:
        raise BadRequest("--folder and --samples exclude each other.")
    named = split_full_name(service)
    record = client.calibrate_with(*named, samples) if samples else client.calibrate(*named, folder)
    while wait and record["state"] in ("WAITING", "RUNNING"):
        time.sleep(POLL_S)
        record = client.calibration(*named, record["calibration_id"])
    print_record(record, "\n".join(calibration_lines(record)), as_json=as_json)
    if record["state"] == "FAILED":
        raise CommandFailed(Exit.FAILED)


def drift(
    client: JointClient,
    service: FullName,
    calibration: Annotated[
        str, typer.Option(metavar="ID", help="Watch for drift, compared with this calibration.")
    ] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Watch for drift, compared with the period that starts at this time.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="End of the period, excluded.")] = "",
    threshold: Annotated[float | None, typer.Option(help="Threshold of the population stability index.")] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop watching for drift.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how far a service has drifted from its reference, or set the reference."""
    namespace, name = split_full_name(service)
    reference = {"calibration_id": calibration, "since": since, "until": until, "threshold": threshold}
    chosen = {key: value for key, value in reference.items() if value not in ("", None)}
    if stop:
        client.stop_drift(namespace, name)
        typer.echo(f"{namespace}/{name} is watched no longer.")
        return
    record = client.watch_drift(namespace, name, chosen) if chosen else client.drift(namespace, name)
    print_record(record, drift_line(record), as_json=as_json)


def drift_line(record: JsonObject) -> str:
    """The last measurement."""
    reference, measured = record["reference"], record["measured"]
    if reference is None or measured is None:
        return "The service is not watched. Give a reference: --calibration ID, or --since TIME --until TIME."
    origin = reference["calibration_id"] or f"{reference['since']} to {reference['until']}"
    if measured["scores"] is None:
        return f"too few objects  compared with {origin}"
    state = "DRIFT" if measured["is_above"] else "ok"
    values = f"scores {measured['scores']:.2f}, classes {measured['classes']:.2f}, threshold {record['threshold']:g}"
    return f"{state}  {values}  compared with {origin}"


def calibration_lines(record: JsonObject) -> list[str]:
    """What is known of a calibration."""
    lines = [f"{record['calibration_id']}  {record['state']}  {record['samples']}  {record['links']['page']}"]
    if record["error"]:
        lines.append(" ".join(filter(None, (record["error"]["message"], record["error"].get("hint")))))
    for one in record.get("settings", ()):
        parameters = ", ".join(f"{key}={value}" for key, value in one["parameters"].items())
        check, checked = one.get("check"), ""
        if check:
            checked = f"  checked {check['quality']:.1%} ({check['low']:.1%} to {check['high']:.1%})"
        lines.append(
            f"{one['upload']:6.1%} up  {one['quality']:6.1%}{checked}  {one['algorithm']} {parameters}".rstrip()
        )
    return lines
