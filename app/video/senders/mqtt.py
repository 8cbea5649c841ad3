"""Rows and events by MQTT 5: a message each, at least once (QoS 1), in the structured form of CloudEvents."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from app.kit.network.networks import Network
from app.kit.network.public_hosts import AddressRefused, resolve
from app.video.model.sink import PORTS, Parcel, Sink

CONTENT_TYPE = "application/cloudevents+json"
KEEPALIVE_S = 30


class MqttSender:
    """networks: private networks that may be sent to. try_s: how long one try may take, in seconds."""

    def __init__(self, networks: Sequence[Network], *, try_s: float) -> None:
        self._networks = networks
        self._try_s = try_s

    def send(self, sink: Sink, parcels: Sequence[Parcel]) -> str:
        """Why they were not taken; empty: the broker has acknowledged each."""
        parts = urlsplit(sink.address)
        host, port = str(parts.hostname), parts.port or PORTS[parts.scheme]
        try:
            address = str(resolve(host, port, self._networks))
            return _Delivery(parts, sink.sink_id, self._try_s).carry_out(address, port, parcels)
        except AddressRefused as error:
            return error.message
        except socket.gaierror as error:
            return f"its host cannot be resolved: {error}"
        except (OSError, ValueError) as error:
            return f"the broker: {error or type(error).__name__}"


class _NamedContext(ssl.SSLContext):
    """Checks the certificate against the name, though the connection goes to an address that was judged."""

    name: str = ""

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        return super().wrap_socket(*args, **{**options, "server_hostname": self.name})


class _Delivery:
    """A connection, as long as a try."""

    def __init__(self, parts: SplitResult, client_id: str, try_s: float) -> None:
        import paho.mqtt.client as paho  # not before something is sent
        from paho.mqtt.enums import CallbackAPIVersion

        self._topic = unquote(parts.path.strip("/"))
        self._deadline = time.monotonic() + try_s
        self._problem, self._is_leaving = "", False
        self._is_connected = threading.Event()
        self._acknowledged: set[int] = set()
        self._changed = threading.Condition()
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"modelmill-{client_id}", protocol=paho.MQTTv5)
        client.connect_timeout = try_s
        if parts.username is not None:
            client.username_pw_set(unquote(parts.username), unquote(parts.password or ""))
        if parts.scheme == "mqtts":
            context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_default_certs()
            context.name = str(parts.hostname)
            client.tls_set_context(context)
        client.on_connect, client.on_publish, client.on_disconnect = self._connected, self._published, self._gone
        self._client = client

    def carry_out(self, address: str, port: int, parcels: Sequence[Parcel]) -> str:
        """Why not; empty: all were acknowledged. Raises OSError."""
        self._client.connect(address, port, KEEPALIVE_S)
        self._client.loop_start()
        try:
            if not self._is_connected.wait(self._left_s()):
                return self._problem or "the broker has not answered"
            if not self._problem:
                self._publish(parcels)
            return self._problem
        finally:
            self._is_leaving = True
            self._client.disconnect()
            self._client.loop_stop()

    def _publish(self, parcels: Sequence[Parcel]) -> None:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.ContentType = CONTENT_TYPE
        sent = {  # without the lock, for the callbacks hold one of the client's when they wait for it
            self._client.publish(self._topic, json.dumps(parcel.envelope), qos=1, properties=properties).mid
            for parcel in parcels
        }
        with self._changed:
            if not self._changed.wait_for(lambda: sent <= self._acknowledged or self._problem, self._left_s()):
                self._problem = "the broker has not acknowledged all of them in time"

    def _connected(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        if reason.is_failure:
            self._problem = f"the broker has refused the connection: {reason}"
        self._is_connected.set()

    def _published(self, _: Any, __: Any, mid: int, reason: Any, ___: Any) -> None:
        with self._changed:
            self._acknowledged.add(mid)
            if reason.is_failure:
                self._problem = f"the broker has refused a message: {reason}"
            self._changed.notify_all()

    def _gone(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        with self._changed:
            if not self._is_leaving:
                self._problem = self._problem or f"the connection has ended: {reason}"
            self._changed.notify_all()

    def _left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())
