"""The commands that change how a job runs, and those that ask what would be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.document_files import read_json
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record, print_table
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.video.cli.command_group import Uid, commands, number_or_text

if TYPE_CHECKING:
    from app.video.client import VideoClient


@commands.command()
def constrain(
    client: VideoClient,
    job: Uid,
    delay: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS|LO,HI", help="Longest time per frame; below LO, the plan may use more resources."
        ),
    ] = None,
    accuracy: Annotated[float | None, typer.Option(metavar="0..1", help="Required quality, 0 to 1.")] = None,
    level: Annotated[
        int | None, typer.Option(min=0, max=5, help="Required quality as a level, instead of --accuracy.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change the constraints of a job from the next plan on: the time per frame and the quality. What is not given
    stays."""
    constraint: JsonObject = {}
    constraint |= {"delay": _parse_delay(delay)} if delay is not None else {}
    constraint |= {"accuracy": accuracy} if accuracy is not None else {}
    constraint |= {"acc_level": level} if level is not None else {}
    if not constraint:
        raise BadRequest("nothing is demanded", hint="Give --delay, --accuracy or --level.")
    record = client.constrain(job, _with_present(client.job(job)["constraint"], constraint))
    print_record(record, as_json=as_json, text=f"{job} constrained: {_describe_constraint(record['constraint'])}")


@commands.command()
def policy(
    client: VideoClient,
    job: Uid,
    name: Annotated[
        str, typer.Argument(metavar="POLICY", help="Name of the policy; `modelmill video policies` lists them.")
    ],
    as_json: AsJson = False,
) -> None:
    """Change the scheduling policy of a job."""
    record = client.choose(job, name)
    print_record(record, as_json=as_json, text=f"{job} is scheduled by {record['policy']}")


@commands.command()
def plan(
    client: VideoClient,
    job: Uid,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The plan, {video_conf, flow_mapping}, as JSON; -: standard input.")
    ],
    as_json: AsJson = False,
) -> None:
    """Set the plan of a job. Its policy continues from this plan; the policy `fixed` keeps it."""
    document = read_json(file)
    missing = [name for name in ("video_conf", "flow_mapping") if name not in document]
    if missing:
        raise BadRequest(f"{file} has no {missing[0]}", hint="A plan is {video_conf: {…}, flow_mapping: {…}}.")
    record = client.give(job, {name: document[name] for name in ("video_conf", "flow_mapping")})
    seq = record["plan"]["seq"] if record["plan"] else "–"
    print_record(record, as_json=as_json, text=f"{job} has plan {seq}")


@commands.command("what-if")
def what_if(
    client: VideoClient,
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Uid of a job; or give --node.")] = None,
    node: Annotated[str | None, typer.Option(metavar="NODE", help="Name of the node that has the video.")] = None,
    video: Annotated[str | None, typer.Option(metavar="ID", help="Id of the video on this node.")] = None,
    dag: Annotated[str | None, typer.Option(metavar="FILE", help="The DAG as JSON.")] = None,
    resolution: Annotated[str | None, typer.Option(metavar="480p", help="Size of the frames, such as 480p.")] = None,
    model: Annotated[
        int | None, typer.Option(min=0, max=2, help="Model of each stage: 0 big, 1 medium, 2 small; default: 0.")
    ] = None,
    up: Annotated[
        list[str] | None, typer.Option(metavar="NODE=MBPS", help="Bandwidth to a node in Mbit/s. Can be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the delay of each way to split a DAG between edge and cloud, fastest first."""
    if not job and not (node and video and dag):
        raise BadRequest("neither a job nor a DAG is named", hint="Give JOB, or --node, --video and --dag.")
    question: JsonObject = {"job_uid": job} if job else {}
    if not job and node and video and dag:
        question = {"node": node, "video_id": number_or_text(video), "dag": dag_in(dag)}
    question |= {"video_conf": {"resolution": resolution}} if resolution else {}
    question |= {"model_id": model} if model is not None else {}
    question |= {"nodes": dict(_parse_speed(text) for text in up)} if up else {}
    predictions = client.what_if(question)
    from app.video.cli.tables import predictions_table

    print_table(predictions, predictions_table, "There is no node that could run it.", as_json=as_json)


def dag_in(file: str) -> JsonObject:
    """A DAG, or a whole job that has one."""
    document = read_json(file)
    dag = document.get("dag", document)
    if not isinstance(dag, dict):
        raise BadRequest(f"{file} has no DAG", hint="A DAG is {generator, flow, input}.")
    return dag


def _with_present(present: JsonObject, demanded: JsonObject) -> JsonObject:
    """What is demanded anew, and of the present constraint the rest."""
    says_quality = "accuracy" in demanded or "acc_level" in demanded
    rest = {key: value for key, value in present.items() if key == "delay" or not says_quality}
    return {**rest, **demanded}


def _parse_delay(text: str) -> float | list[float]:
    try:
        parts = [float(part) for part in text.split(",")]
    except ValueError:
        parts = []
    if len(parts) not in (1, 2):
        raise BadRequest(f"--delay: {text!r} is no time", hint="Give seconds, as 0.3, or a range, as 0.1,0.3.")
    return parts[0] if len(parts) == 1 else parts


def _parse_speed(text: str) -> tuple[str, JsonObject]:
    name, _, speed = text.rpartition("=")
    try:
        mbps = float(speed) if name else None
    except ValueError:
        mbps = None
    if mbps is None:
        raise BadRequest(f"--up: {text!r} is no speed", hint="Write it as NODE=MBPS, as cloud0=2.5.")
    return name, {"up_mbps": mbps}


def _describe_constraint(constraint: JsonObject) -> str:
    from app.video.cli.tables import pairs

    return pairs(constraint)
