"""Rows and events over MQTT 5, at least once (QoS 1): a message each as a structured CloudEvent, or in another form."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from app.kit.network.answer_limit import AnswerLimit, AnswerTooLong
from app.kit.network.checked_post import NotSent
from app.results.model.sink import Delivery, Sink, TooLarge
from app.results.senders.server import NetworkSender, Server, server_of

CONTENT_TYPE = "application/cloudevents+json"
KEEPALIVE_S = 30
READ_BYTES = 1 << 16
PACKET_TOO_LARGE = 0x95
"""Reason code of MQTT 5, of an acknowledgement or of the end of a connection."""


@dataclass(frozen=True)
class MqttMessage:
    """A message.

    Args:
        is_retained: the broker keeps the last one of the topic for later subscribers.
    """

    topic: str
    payload: str
    is_retained: bool = False
    content_type: str = "application/json"


Messages = Callable[[Sink, str, Sequence[Delivery]], list[MqttMessage]]
"""Returns the messages for these deliveries; the text is the topic of the sink."""


def cloud_events(_: Sink, topic: str, deliveries: Sequence[Delivery]) -> list[MqttMessage]:
    """Returns a CloudEvent for each delivery."""
    return [MqttMessage(topic, json.dumps(delivery.envelope), content_type=CONTENT_TYPE) for delivery in deliveries]


@dataclass(frozen=True, kw_only=True)
class MqttSender(NetworkSender):
    """Sends over MQTT."""

    messages: Messages = cloud_events

    def send(self, sink: Sink, deliveries: Sequence[Delivery]) -> str:
        """Returns why they were not accepted; empty if the broker has acknowledged each.

        Raises:
            TooLarge: A message exceeds the limit.
        """
        try:
            server = server_of(sink, self.networks)
            messages = self.messages(sink, unquote(server.parts.path.strip("/")), deliveries)
            return _Delivery(server, sink.client_id, self.try_s).carry_out(messages)
        except NotSent as error:
            return str(error)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else ""
            return f"the broker: {reason or error or type(error).__name__}"


class _NamedContext(ssl.SSLContext):
    """Checks the certificate against the name, though the connection uses the address that was checked before."""

    name: str = ""
    last: ssl.SSLSocket | None = None
    """The last connection, which the client leaves open if the certificate is wrong."""

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        self.last = super().wrap_socket(*args, **{**options, "server_hostname": self.name})
        return self.last


class _Delivery:
    """A connection for one try."""

    def __init__(self, server: Server, client_id: str, try_s: float) -> None:
        import paho.mqtt.client as paho  # imported only when something is sent
        from paho.mqtt.enums import CallbackAPIVersion

        self._server = server
        self._deadline = time.monotonic() + try_s
        self._problem, self._is_too_large, self._is_leaving = "", False, False
        self._is_connected, self._limit = threading.Event(), AnswerLimit()
        self._acknowledged: set[int] = set()
        self._changed = threading.Condition()

        class Client(paho.Client):
            def _sock_recv(client, bufsize: int) -> bytes:  # noqa: N805  # self is the connection around it
                data = super()._sock_recv(min(bufsize, READ_BYTES))
                try:
                    self._limit.spend(len(data))
                except AnswerTooLong as error:
                    self._end(f"the broker: {error}")
                    raise
                return data

            def _handle_pubackcomp(client, cmd: Any) -> Any:  # noqa: N805  # likewise
                """Mosquitto refuses with a code that MQTT does not allow here, at which this client would only say that
                the protocol was violated."""
                packet = client._in_packet["packet"]
                if len(packet) > 2 and packet[2] == PACKET_TOO_LARGE:
                    self._handle_refused_size()
                return super()._handle_pubackcomp(cmd)

        client = Client(CallbackAPIVersion.VERSION2, client_id=f"modelmill-{client_id}", protocol=paho.MQTTv5)
        client.connect_timeout = try_s
        if server.user is not None:
            client.username_pw_set(server.user, server.password or "")
        self._context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
        if server.parts.scheme == "mqtts":
            self._context.load_default_certs()
            self._context.name = str(server.parts.hostname)
            client.tls_set_context(self._context)
        client.on_connect, client.on_publish, client.on_disconnect = (
            self._handle_connected,
            self._handle_published,
            self._handle_gone,
        )
        self._client = client

    def carry_out(self, messages: Sequence[MqttMessage]) -> str:
        """Returns why it failed; empty if all were acknowledged.

        Raises:
            OSError: The connection broke.
            TooLarge: The broker has refused a message for its size.
        """
        try:
            self._client.connect(self._server.address, self._server.port, KEEPALIVE_S)
        except ssl.SSLError:
            if self._context.last is not None:
                self._context.last.close()
            raise
        self._client.loop_start()
        try:
            if not self._is_connected.wait(self._measure_left_s()):
                return self._problem or "the broker has not answered"
            if not self._problem:
                self._publish(messages)
            if self._is_too_large:
                raise TooLarge(self._problem)
            return self._problem
        finally:
            self._is_leaving = True
            self._client.disconnect()
            self._client.loop_stop()

    def _publish(self, messages: Sequence[MqttMessage]) -> None:
        sent = {self._get_published_id(one) for one in messages}
        # No lock until here, since callbacks hold one of the client's while they wait for it.
        with self._changed:
            if not self._changed.wait_for(lambda: sent <= self._acknowledged or self._problem, self._measure_left_s()):
                self._problem = "the broker has not acknowledged all of them in time"

    def _get_published_id(self, message: MqttMessage) -> int:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho does not annotate it
        properties.ContentType = message.content_type
        topic, payload = message.topic, message.payload
        return self._client.publish(topic, payload, qos=1, retain=message.is_retained, properties=properties).mid

    def _handle_connected(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        if reason.is_failure:
            self._problem = f"the broker has refused the connection: {reason}"
        self._is_connected.set()

    def _handle_published(self, _: Any, __: Any, mid: int, reason: Any, ___: Any) -> None:
        with self._changed:
            self._acknowledged.add(mid)
            if reason.is_failure:
                self._problem = f"the broker has refused a message: {reason}"
            self._changed.notify_all()

    def _end(self, problem: str) -> None:
        """Nothing more is waited for."""
        with self._changed:
            self._problem = problem
            self._changed.notify_all()
        self._is_connected.set()

    def _handle_refused_size(self) -> None:
        with self._changed:
            self._problem, self._is_too_large = "the broker has refused a message: Packet too large", True

    def _handle_gone(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        with self._changed:
            if not self._is_leaving:
                self._problem = self._problem or f"the connection has ended: {reason}"
                self._is_too_large = self._is_too_large or reason.value == PACKET_TOO_LARGE
            self._changed.notify_all()
        self._is_connected.set()  # it will not be

    def _measure_left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())
