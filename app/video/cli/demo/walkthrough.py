"""The demonstration from its first sentence to its events, and on until Ctrl-C."""

from __future__ import annotations

import os
import queue
import time
import webbrowser
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from app.kit.cli.command import Exit, signals_end
from app.results.rule_commands import followed_events
from app.video.cli.demo.broker import TOPIC, Broker, broker_in, received
from app.video.cli.demo.catalogue import SAMPLE, add_stages
from app.video.cli.demo.deployment import EDGE, running_nodes, videos_of
from app.video.cli.demo.show import CLIP, await_edge, face_dag, make_sample
from app.video.client import VideoClient, path_of

PATIENCE_S = 180.0
"""With --once: for an event of each rule."""
PAUSE_S = 1.0
RULES: dict[str, Any] = {
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
NETWORKS = {"MODELMILL_NOTIFICATION_NETWORKS": "127.0.0.1/32"}
"""Sinks send to public addresses, and to the broker of this machine."""
Say = Callable[[str], None]
Json = dict[str, Any]


def demonstrate(*, port: int, is_once: bool, opens: bool, data: Path | None) -> Exit:
    """Runs until Ctrl-C.

    Args:
        port: Of the web; 0: any that is free.
        is_once: Only until each rule has made an event.
        opens: The page of the job is opened where there is a display.
        data: Where everything is stored; None: in a folder that is removed at the end.

    Raises:
        CannotStart: The port is taken, or a process did not start.
        SourceUnusable: PyAV is not installed.
    """
    console = Console()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    with signals_end(), ExitStack() as stack:
        try:
            return _walked_through(say, stack, port=port, is_once=is_once, opens=opens, data=data)
        except KeyboardInterrupt:
            return Exit.CANCELLED if is_once else Exit.OK
        finally:
            stack.close()
            say("Everything is stopped.")


def _walked_through(say: Say, stack: ExitStack, *, port: int, is_once: bool, opens: bool, data: Path | None) -> Exit:
    say("Drawing a clip: four heads that turn and nod, and somebody who walks past. Making models that find them.")
    sample = make_sample(data, stack, has_walker=True)
    videos, broker = videos_of([f"drawn heads={sample / CLIP}"]), broker_in(sample)
    say(f"Starting the web, a node cloud0, a node {EDGE}{' and a broker of MQTT' if broker else ''}.")
    deployment = stack.enter_context(
        running_nodes(
            port, videos=videos, data=data, notice=say, settings=NETWORKS, parts=[broker.part] if broker else []
        )
    )
    stages = add_stages(deployment.url, sample, say, SAMPLE)
    say(f"Stages: {', '.join(stages)}.")
    messages = stack.enter_context(received(broker)) if broker else None
    await_edge(deployment.url)
    client = stack.enter_context(VideoClient(deployment.url))
    uid = submit(client, broker)
    page = f"{deployment.url}/ui/video/{uid}"
    say(f"The job {uid} runs. Rules: {', '.join(rule['name'] for rule in RULES['rules'])}.")
    say(_where_to(broker))
    say(f"Look at it: {page}   Its rules and events: {page}/rules   Ctrl-C ends everything.")
    if opens and not is_once and has_display():
        webbrowser.open(page)
    events = followed_events(client, path_of(uid)) if messages is None else arrived(messages)
    if not _shown(say, events, PATIENCE_S if is_once else None):
        say(f"Not every rule has made an event in {PATIENCE_S:.0f} s. {_state(client.job(uid))}")
        return Exit.FAILED
    return Exit.OK


def submit(client: VideoClient, broker: Broker | None = None, *, node: str = EDGE, name: str = "") -> str:
    """The job, its rules, and its sink where there is a broker.

    Args:
        broker: where events go, too; None: nowhere else.
        node: whose video it is.
        name: of the job.

    Returns:
        Its uid.
    """
    job = {"node": node, "name": name, "video_id": 0, "restart_policy": "eos", "dag": face_dag(), "recording": RECORDED}
    uid = str(client.submit(job)["uid"])
    client.put_rules(path_of(uid), RULES)
    if broker:
        client.add_sink(path_of(uid), "mqtt", broker.address, "events")
    return uid


def arrived(messages: queue.Queue[Json]) -> Iterator[list[Json]]:
    """Without an end: what came, or nothing after a pause in which nothing came."""
    while True:
        try:
            yield [messages.get(timeout=PAUSE_S)]
        except queue.Empty:
            yield []


def has_display() -> bool:
    """Else a browser would be one of text, in this terminal."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _shown(say: Say, events: Iterator[list[Json]], patience_s: float | None) -> bool:
    """Until each rule has made an event, within that time; None: without an end."""
    counts, began = Counter[str](), time.monotonic()
    for some in events:
        for event in some:
            counts[event["rule"]] += 1
            say(f"Event {counts.total()}: {event['rule']}: {event['text']}")
        if patience_s is None:
            continue
        if counts.keys() >= {rule["name"] for rule in RULES["rules"]}:
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


def _state(job: Json) -> str:
    return f"The job: {job['state']}, frame {job['n_loop']}. {' '.join(job['flags'])} {job['reason']}".strip()
