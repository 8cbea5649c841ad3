"""A Mosquitto of our own, Debian's, that can be stopped and started."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.harness.ports import free_port, has_listener
from tests.harness.until import PATIENCE_S, until

PROGRAM = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


def require_mosquitto() -> None:
    """Where it is not installed, the test is skipped, but fails in CI."""
    if PROGRAM is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Debian's mosquitto is not installed")


class Mosquitto:
    """user, password: whom it lets in; empty: everybody. options: further lines of its configuration.
    See require_mosquitto."""

    def __init__(
        self,
        folder: Path,
        *,
        user: str = "",
        password: str = "",
        options: Sequence[str] = (),
    ) -> None:
        require_mosquitto()
        self.port = free_port()
        self.user, self.password = user, password
        lines = [f"listener {self.port} 127.0.0.1", f"allow_anonymous {'false' if user else 'true'}"]
        if user:
            file = folder / "passwords"
            tool = str(Path(str(PROGRAM)).with_name("mosquitto_passwd"))
            tool = tool if Path(tool).exists() else str(shutil.which("mosquitto_passwd"))
            subprocess.run([tool, "-b", "-c", str(file), user, password], check=True, capture_output=True)
            file.chmod(0o644)
            lines.append(f"password_file {file}")
        self._file = folder / "mosquitto.conf"
        self._file.write_text("\n".join([*lines, *options, "user root", ""]))
        self._process: subprocess.Popen[bytes] | None = None
        self._subscribers: list[paho.Client] = []

    def __enter__(self) -> Mosquitto:
        self.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when it listens."""
        self._process = subprocess.Popen([str(PROGRAM), "-c", str(self._file)], stderr=subprocess.DEVNULL)
        until(lambda: has_listener(self.port), what="Mosquitto listens")

    def kill(self) -> None:
        """Its connections break with it."""
        if self._process is not None:
            self._process.kill()
        self.stop()

    def stop(self) -> None:
        """Those that have subscribed are disconnected: they would connect again and again, beside other tests."""
        for client in self._subscribers:
            client.disconnect()
            client.loop_stop()
        self._subscribers.clear()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def subscribe(self, topic: str) -> queue.Queue[Any]:
        """The messages that come from now on. The connection ends with the broker."""
        messages: queue.Queue[Any] = queue.Queue()
        is_subscribed = threading.Event()
        client = self._client()
        client.on_message = lambda _, __, message: messages.put(message)
        client.on_subscribe = lambda *_: is_subscribed.set()
        client.subscribe(topic, qos=1)
        client.loop_start()
        self._subscribers.append(client)
        assert is_subscribed.wait(PATIENCE_S)
        return messages

    def _client(self) -> paho.Client:
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        if self.user:
            client.username_pw_set(self.user, self.password)
        client.connect("127.0.0.1", self.port)
        return client
