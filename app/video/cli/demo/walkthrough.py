"""The demonstration from its first sentence to its events, and on until Ctrl-C."""

from __future__ import annotations

import os
import queue
import time
import webbrowser
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from app.kit.cli.command import Exit
from app.kit.errors import BadInput
from app.kit.network.addresses import without_credentials
from app.kit.text.json_values import JsonObject
from app.results.rule_commands import follow_events
from app.standalone.camera import require_camera
from app.standalone.demonstration import Say, run_until_ended
from app.video.cli.demo.broker import TOPIC, Broker, broker_in, receive_messages
from app.video.cli.demo.catalogue import SAMPLE, USUAL, ModelKit, add_stages, files_in
from app.video.cli.demo.deployment import EDGE, Videos, running_nodes, videos_of
from app.video.cli.demo.show import CLIP, await_edge, face_dag, make_sample
from app.video.client import VideoClient, path_of

PATIENCE_S = 180.0
"""With --once: for an event of each rule."""
PAUSE_S = 1.0
RULES: JsonObject = {
    "zones": [
        {"name": "row", "points": [[0.02, 0.1], [0.98, 0.1], [0.98, 0.65], [0.02, 0.65]]},
        {"name": "gate", "points": [[0.5, 1.0], [0.5, 0.66]]},
    ],
    "rules": [
        {"name": "company", "zone": "row", "at_least": 3, "frames": 2},
        {"name": "passer-by", "zone": "gate", "direction": "right", "cooldown_s": 0},
    ],
}
"""An area with the four heads, and a line that the fifth crosses once in each turn of the clip."""
RECORDED = {"hours": 1, "megabytes": 200}
CAMERA_RULES: JsonObject = {"rules": [{"name": "somebody", "frames": 2, "cooldown_s": 10}]}
AT_HAND = (
    "The models are those of the drawn clip: they take for a face what has the color of one, and find real ones "
    "badly. For real models give --models."
)
NETWORKS = {"MODELMILL_NOTIFICATION_NETWORKS": "127.0.0.1/32"}
"""Sinks send to public addresses, and to the broker of this machine."""


@dataclass(frozen=True)
class DemoScene:
    """What a demonstration shows."""

    videos: Videos
    models: Path
    """Their folder."""
    kit: ModelKit
    rules: JsonObject
    restart_policy: str


def draw_scene(data: Path | None, stack: ExitStack) -> DemoScene:
    sample = make_sample(data, stack, has_walker=True)
    return DemoScene(videos_of([f"drawn heads={sample / CLIP}"]), sample, SAMPLE, RULES, "eos")


def camera_scene(camera: str, models: Path | None, data: Path | None, stack: ExitStack) -> DemoScene:
    """A camera, with the models of a folder, or with those of the drawn clip.

    Args:
        camera: A device or a URL.
        models: Their folder; None: those of the drawn clip.
        data: Where these are made; None: in a folder that is removed at the end.
        stack: Removes that folder.

    Raises:
        BadInput: There is no such camera or folder, or it cannot be opened.
        SourceUnusable: The camera cannot be opened, or PyAV is not installed.
    """
    require_camera(camera)
    videos = [("camera", camera)]
    if models is not None:
        files_in(models)
        return DemoScene(videos, models, USUAL, CAMERA_RULES, "always")
    return DemoScene(videos, make_sample(data, stack), SAMPLE, CAMERA_RULES, "always")


def demonstrate(
    *, port: int, is_once: bool, opens: bool, data: Path | None, camera: str = "", models: Path | None = None
) -> Exit:
    """Runs until Ctrl-C.

    Args:
        port: Of the web; 0: any that is free.
        is_once: Only until each rule has made an event.
        opens: The page of the job is opened where there is a display.
        data: Where everything is stored; None: in a folder that is removed at the end.
        camera: A device or a URL; empty: the drawn clip.
        models: Folder of models for the camera; None: those of the drawn clip.

    Raises:
        CannotStart: The port is taken, or a process did not start.
        BadInput: There is no such camera or folder.
        SourceUnusable: PyAV is not installed, or the camera cannot be opened.
    """

    def demonstrated(say: Say) -> Exit:
        with ExitStack() as stack:
            if camera:
                say(f"Opening the camera {without_credentials(camera)}.")
                scene = camera_scene(camera, models, data, stack)
                say(AT_HAND if models is None else f"Models are those in {models}.")
            else:
                say(
                    "Drawing a clip: four heads that turn and nod, and somebody who walks past. "
                    "Making models that find them."
                )
                scene = draw_scene(data, stack)
            return _run_walkthrough(say, stack, scene, port=port, is_once=is_once, opens=opens, data=data)

    return run_until_ended(demonstrated, is_once=is_once)


def _run_walkthrough(
    say: Say, stack: ExitStack, scene: DemoScene, *, port: int, is_once: bool, opens: bool, data: Path | None
) -> Exit:
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="modelmill-broker-")))
    broker = broker_in(folder)
    say(f"Starting the web, a node cloud0, a node {EDGE}{' and a broker of MQTT' if broker else ''}.")
    deployment = stack.enter_context(
        running_nodes(
            port, videos=scene.videos, data=data, notice=say, settings=NETWORKS, parts=[broker.part] if broker else []
        )
    )
    stages = add_stages(deployment.url, scene.models, say, scene.kit)
    say(f"Stages: {', '.join(stages)}.")
    messages = stack.enter_context(receive_messages(broker)) if broker else None
    await_edge(deployment.url)
    client = stack.enter_context(VideoClient(deployment.url))
    uid = submit(client, broker, scene=scene, dag=dag_of(stages))
    page = f"{deployment.url}/ui/video/{uid}"
    say(f"The job {uid} runs. Rules: {', '.join(rule['name'] for rule in scene.rules['rules'])}.")
    say(_where_to(broker))
    say(f"Look at it: {page}   Its rules and events: {page}/rules   Ctrl-C ends everything.")
    if opens and not is_once and has_display():
        webbrowser.open(page)
    events = follow_events(client, path_of(uid)) if messages is None else iterate_arrivals(messages)
    names = {rule["name"] for rule in scene.rules["rules"]}
    if not _await_events(say, events, names, PATIENCE_S if is_once else None):
        say(f"Not every rule has made an event in {PATIENCE_S:.0f} s. {_read_state(client.job(uid))}")
        return Exit.FAILED
    return Exit.OK


def dag_of(stages: Sequence[str]) -> JsonObject:
    """Faces and their poses where there are models for both, else the first stage.

    Raises:
        BadInput: There are no stages.
    """
    if not stages:
        known = ", ".join(USUAL.decoders)
        raise BadInput("the folder has no model that the demonstration knows", hint=f"It knows {known}.")
    if {"face_detection", "face_alignment"} <= set(stages):
        return {"dag": face_dag()}
    return {"stages": [stages[0]]}


def submit(
    client: VideoClient,
    broker: Broker | None = None,
    *,
    node: str = EDGE,
    name: str = "",
    scene: DemoScene | None = None,
    dag: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """The job, its rules, and its sink where there is a broker.

    Args:
        broker: where events go, too; None: nowhere else.
        node: whose video it is.
        name: of the job.
        scene: whose rules it has; None: those of the drawn clip.
        dag: `dag` or `stages` of the job; empty: faces and their poses.

    Returns:
        Its uid.
    """
    restart_policy, rules = (scene.restart_policy, scene.rules) if scene else ("eos", RULES)
    job = {"node": node, "name": name, "video_id": 0, "restart_policy": restart_policy, "recording": RECORDED}
    uid = str(client.submit(job | (dict(dag) or {"dag": face_dag()}))["uid"])
    client.put_rules(path_of(uid), rules)
    if broker:
        client.add_sink(path_of(uid), "mqtt", broker.address, "events")
    return uid


def iterate_arrivals(messages: queue.Queue[JsonObject]) -> Iterator[list[JsonObject]]:
    """Without an end: what came, or nothing after a pause in which nothing came."""
    while True:
        try:
            yield [messages.get(timeout=PAUSE_S)]
        except queue.Empty:
            yield []


def has_display() -> bool:
    """Else a browser would be one of text, in this terminal."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _await_events(say: Say, events: Iterator[list[JsonObject]], rules: set[str], patience_s: float | None) -> bool:
    """Until each of these rules has made an event, within that time; None: without an end."""
    counts, began = Counter[str](), time.monotonic()
    for some in events:
        for event in some:
            counts[event["rule"]] += 1
            say(f"Event {counts.total()}: {event['rule']}: {event['text']}")
        if patience_s is None:
            continue
        if counts.keys() >= rules:
            return True
        if time.monotonic() - began > patience_s:
            break
    return False


def _where_to(broker: Broker | None) -> str:
    if broker is None:
        return "Mosquitto is not installed (apt install mosquitto), so events go nowhere but to the page."
    return (
        f"Its events go by MQTT to {broker.address}; those below have come from there. "
        f"Yours: mosquitto_sub -p {broker.port} -t {TOPIC}"
    )


def _read_state(job: JsonObject) -> str:
    return f"The job: {job['state']}, frame {job['n_loop']}. {' '.join(job['flags'])} {job['reason']}".strip()
