"""The demonstration's own MQTT broker: Mosquitto, if it is installed."""

from __future__ import annotations

import json
import queue
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.kit.cli.command import CannotStart
from app.kit.text.json_values import JsonObject
from app.standalone.ports import LOOPBACK, free_port
from app.standalone.process import Part

TOPIC = "modelmill/demo"
PLACES = "/usr/sbin:/usr/local/sbin"
"""Where Debian installs it is in nobody's PATH but root's."""
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Broker:
    """A Mosquitto for clients of this machine; it asks nobody who they are."""

    port: int
    part: Part

    @property
    def address(self) -> str:
        """Of the topic of the demonstration, as a sink has it."""
        return f"mqtt://{LOOPBACK}:{self.port}/{TOPIC}"


def broker_in(folder: Path) -> Broker | None:
    """Writes its configuration there. None: Mosquitto is not installed."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path=PLACES)
    if program is None:
        return None
    port, file = free_port(), folder / "mosquitto.conf"
    file.write_text(f"listener {port} {LOOPBACK}\nallow_anonymous true\n", encoding="utf-8")
    return Broker(port, Part("mosquitto", (program, "-c", str(file))))


@contextmanager
def receive_messages(broker: Broker) -> Iterator[queue.Queue[JsonObject]]:
    """What comes on its topic until the block ends: `data` of each CloudEvent. Waits for the broker at first.

    Raises:
        CannotStart: It does not answer.
    """
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    messages: queue.Queue[JsonObject] = queue.Queue()
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    is_subscribed = threading.Event()
    client.on_subscribe = lambda *_: is_subscribed.set()

    def subscribe(*_: Any) -> None:
        client.subscribe(TOPIC, qos=1)

    client.on_connect = subscribe
    client.on_message = lambda _, __, message: messages.put(json.loads(message.payload)["data"])
    client.connect_async(LOOPBACK, broker.port)
    client.loop_start()
    try:
        if not is_subscribed.wait(PATIENCE_S):
            raise CannotStart(f"Mosquitto does not answer at port {broker.port}", hint="Its log says why.")
        yield messages
    finally:
        client.disconnect()
        client.loop_stop()
