"""The pseudo-distributed start from its first sentence to its end."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from app.inference.sources.factory import is_stream
from app.inference.sources.facts import facts_of
from app.inference.sources.video import require_pyav
from app.kit.cli.command import Exit, signals_end
from app.kit.clock import happens_within
from app.kit.text.json_values import JsonObject
from app.video.cli.demo.catalogue import DECODERS, RECIPES, SAMPLE, USUAL, ModelKit, add_stages, files_in
from app.video.cli.demo.deployment import EDGE, EDGE_HOST, DemoDeployment, Ports, Videos, running_deployment, videos_of
from app.video.client import VideoClient

CLIP = "heads.mp4"
JOIN_S, LOOK_S = 60.0, 0.2


def run_demo(ports: Ports, *, videos: Videos | None, models: Path | None, data: Path | None) -> Exit:
    """Runs until Ctrl-C.

    Args:
        videos: Of the edge node; None: the drawn clip, with its models.
        models: Folder of models of which stages are made.
        data: Where everything is stored; None: in a folder that is removed at the end.

    Raises:
        CannotStart: A port is taken, or a process did not start.
        BadInput: There is no such folder.
        SourceUnusable: PyAV is not installed.
    """
    if models is not None:
        files_in(models)
    console = Console()
    with signals_end(), ExitStack() as stack:
        try:
            kit = USUAL
            if videos is None:
                models, kit = make_sample(data, stack), SAMPLE
                videos = videos_of([f"drawn heads={models / CLIP}"])
                _print(console, f"There are no videos and no models: a clip and models are made in {models}.")
            _run(console, ports, videos, models, data, kit)
        except KeyboardInterrupt:
            return Exit.OK
        finally:
            _print(console, "Everything is stopped.")
    return Exit.OK


def make_sample(data: Path | None, stack: ExitStack, *, has_walker: bool = False) -> Path:
    """Draws the clip and makes its models.

    Args:
        has_walker: See draw_clip.

    Returns:
        Their folder: in `data`, or else one that the stack removes.

    Raises:
        SourceUnusable: PyAV is not installed.
    """
    require_pyav(CLIP)
    if data is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="modelmill-sample-")))
    else:
        folder = data.expanduser().absolute() / "sample"
        folder.mkdir(parents=True, exist_ok=True)
    from app.standalone.sample_clip import draw_clip
    from app.standalone.sample_models import write_models

    draw_clip(folder / CLIP, has_walker=has_walker)
    write_models(folder)
    return folder


def _run(console: Console, ports: Ports, videos: Videos, models: Path | None, data: Path | None, kit: ModelKit) -> None:
    def say(text: str) -> None:
        _print(console, text)

    say("Starting the web, a node cloud0 and a node edge0.")
    with running_deployment(ports, videos=videos, data=data, notice=say) as deployment:
        say(addresses(ports))
        for number, (kind, source) in enumerate(videos):
            say(f"Video {number} of edge0: {kind}, {Path(source).name if not is_stream(source) else 'a stream'}")
            if problem := facts_of(source).problem:
                say(f"  {problem}.")
        stages = add_stages(deployment.url, models, say, kit) if models else []
        if videos:
            await_edge(deployment.url)
        say(_what_next(ports, deployment, videos, stages, kit))
        threading.Event().wait()


def await_edge(url: str, prefix: str = "") -> bool:
    """Waits until a job can be submitted, but not forever: the log of the node says why it takes long.

    Args:
        prefix: Of the node's name.

    Returns:
        Whether it can be.
    """

    def is_there() -> bool:
        return any(node["node"] == f"{prefix}{EDGE}" and node["is_online"] for node in client.nodes())

    with VideoClient(url) as client:
        return happens_within(JOIN_S, is_there, poll_s=LOOK_S)


def addresses(ports: Ports) -> str:
    at = "http://127.0.0.1"
    return "\n".join(
        [
            f"Users      {at}:{ports.users}   GET /user/get_all_status, POST /user/submit_job; pages: /ui/video",
            f"Tracker    {at}:{ports.tracker}   POST /node/submit_job, /node/get_plan, /node/update_plan",
            f"Edge node  {at}:{ports.edge}   its address in plans and jobs: {EDGE_HOST}:{ports.edge}",
            f"Pictures   {at}:{ports.pictures}   GET /user/video/<job_uid>",
            f"           {at}:{ports.edge_pictures}   the same from the edge node, for programs",
            f"Stages     {at}:{ports.services}   POST /service/face_detection",
        ]
    )


def _what_next(
    ports: Ports, deployment: DemoDeployment, videos: Videos, stages: Sequence[str], kit: ModelKit = USUAL
) -> str:
    lines = [f"Logs: {deployment.folder / 'run' / 'logs'}"]
    if not videos:
        lines.append("The edge node has no video: start again with --videos DIR or --videos 'traffic flow=FILE'.")
    if kit is SAMPLE:
        lines.append("With --videos FILE and --models DIR it is your video and your models: see docs/video.md.")
    elif len(stages) < len(RECIPES):
        names = ", ".join(f"{name}.onnx" for name in DECODERS)
        lines.append(
            f"Stages: {', '.join(stages) or 'none'}. With --models DIR they are made of those of {names} there."
        )
        lines.append(f"Stages of other models are made at {deployment.url}/ui/video/stages.")
    lines.append(f"Open {deployment.url}/ui/video in a browser: submit jobs there, and watch them.")
    if videos and {"face_detection", "face_alignment"} <= set(stages):
        lines.append("Or submit one here, and see it on that page:")
        body = json.dumps(job(ports))
        lines.append(f"  curl -H 'Content-Type: application/json' {deployment.url}/user/submit_job -d '{body}'")
    return "\n".join([*lines, "Ctrl-C ends everything."])


def job(ports: Ports) -> JsonObject:
    """The requirement's example, restarted at the end of the video."""
    return {"node_addr": f"{EDGE_HOST}:{ports.edge}", "video_id": 0, "restart_policy": "eos", "dag": face_dag()}


def face_dag() -> JsonObject:
    """Find the faces, then their poses."""
    image = "SingleFrameGenerator.image"
    return {
        "generator": "SingleFrameGenerator",
        "flow": ["SingleFrameGenerator", "face_detection", "face_alignment"],
        "input": {
            "face_detection": {"image": image},
            "face_alignment": {"image": image, "bbox": "face_detection.bbox", "prob": "face_detection.prob"},
            "Render": {"image": "face_alignment.image", "count": "face_alignment.count_result"},
        },
    }


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
