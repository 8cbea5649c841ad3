"""The pseudo-distributed start from its first sentence to its end."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from app.inference.sources.factory import is_stream
from app.inference.sources.facts import facts_of
from app.inference.sources.video import require_pyav
from app.kit.cli.command import Exit
from app.kit.cli.signals import signals_end
from app.video.cli.demo.catalogue import DECODERS, RECIPES, SAMPLE, USUAL, Kit, files_in, fill
from app.video.cli.demo.deployment import EDGE_HOST, DemoDeployment, Ports, Videos, running_stand
from app.video.cli.demo.videos import found_videos
from app.video.client import Client

CLIP = "heads.mp4"
JOIN_S, LOOK_S = 60.0, 0.2


def play(ports: Ports, *, videos: Videos | None, models: Path | None, data: Path | None) -> Exit:
    """Until Ctrl-C. videos: None: those of the sample, with its models. Raises CannotStart, BadInput, SourceUnusable,
    and what the API says is wrong."""
    if models is not None:
        files_in(models)
    console = Console()
    with signals_end(), ExitStack() as stack:
        try:
            kit = USUAL
            if videos is None:
                models, kit = sample(data, stack), SAMPLE
                videos = found_videos([f"drawn heads={models / CLIP}"])
                _say(console, f"There are no videos and no models: a clip and models are made in {models}.")
            _play(console, ports, videos, models, data, kit)
        except KeyboardInterrupt:
            return Exit.OK
        finally:
            _say(console, "Everything is stopped.")
    return Exit.OK


def sample(data: Path | None, stack: ExitStack) -> Path:
    """Folder of the drawn clip and its models: in that of the data, else it goes with the stack. Raises SourceUnusable
    without PyAV."""
    require_pyav(CLIP)
    if data is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="modelmill-sample-")))
    else:
        folder = data.expanduser().absolute() / "sample"
        folder.mkdir(parents=True, exist_ok=True)
    from app.video.cli.demo.sample_clip import draw_clip
    from app.video.cli.demo.sample_models import write_models

    draw_clip(folder / CLIP)
    write_models(folder)
    return folder


def _play(console: Console, ports: Ports, videos: Videos, models: Path | None, data: Path | None, kit: Kit) -> None:
    def say(text: str) -> None:
        _say(console, text)

    say("Starting the web, a node cloud0 and a node edge0.")
    with running_stand(ports, videos=videos, data=data, notice=say) as stand:
        say(addresses(ports))
        for number, (kind, source) in enumerate(videos):
            say(f"Video {number} of edge0: {kind}, {Path(source).name if not is_stream(source) else 'a stream'}")
            if problem := facts_of(source).problem:
                say(f"  {problem}.")
        made = fill(stand.url, models, say, kit) if models else []
        if videos:
            _await_edge(stand.url)
        say(_what_next(ports, stand, videos, made, kit))
        threading.Event().wait()


def _await_edge(url: str) -> None:
    """Until a job can be submitted; one that takes very long says why in its log."""
    deadline = time.monotonic() + JOIN_S
    with Client(url) as client:
        while time.monotonic() < deadline and not any(node["is_online"] for node in client.nodes()):
            time.sleep(LOOK_S)


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


def _what_next(ports: Ports, stand: DemoDeployment, videos: Videos, made: Sequence[str], kit: Kit = USUAL) -> str:
    lines = [f"Logs: {stand.folder / 'run' / 'logs'}"]
    if not videos:
        lines.append("The edge node has no video: start again with --videos DIR or --videos 'traffic flow=FILE'.")
    if kit is SAMPLE:
        lines.append("With --videos FILE and --models DIR it is your video and your models: see docs/video.md.")
    elif len(made) < len(RECIPES):
        known = ", ".join(f"{name}.onnx" for name in DECODERS)
        lines.append(f"Stages: {', '.join(made) or 'none'}. With --models DIR they are made of those of {known} there.")
        lines.append(f"Stages of other models are made at {stand.url}/ui/video/stages.")
    lines.append(f"Open {stand.url}/ui/video in a browser: submit jobs there, and watch them.")
    if videos and {"face_detection", "face_alignment"} <= set(made):
        lines.append("Or submit one here, and see it on that page:")
        body = json.dumps(job(ports))
        lines.append(f"  curl -H 'Content-Type: application/json' {stand.url}/user/submit_job -d '{body}'")
    return "\n".join([*lines, "Ctrl-C ends everything."])


def job(ports: Ports) -> dict[str, Any]:
    """The requirement's own, begun again at the end of the video."""
    image = "SingleFrameGenerator.image"
    return {
        "node_addr": f"{EDGE_HOST}:{ports.edge}",
        "video_id": 0,
        "restart_policy": "eos",
        "dag": {
            "generator": "SingleFrameGenerator",
            "flow": ["SingleFrameGenerator", "face_detection", "face_alignment"],
            "input": {
                "face_detection": {"image": image},
                "face_alignment": {"image": image, "bbox": "face_detection.bbox", "prob": "face_detection.prob"},
                "Render": {"image": "face_alignment.image", "count": "face_alignment.count_result"},
            },
        },
    }


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
