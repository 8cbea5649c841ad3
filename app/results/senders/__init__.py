"""One attempt to deliver rows or events to a sink, by the web server or a node; to files only by the web server."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from app.kit.network.addresses import Network
from app.results.model.sink import Delivery, Sink, SinkKind, TooLarge
from app.results.senders.home_assistant import home_assistant_messages
from app.results.senders.home_files import FileSender
from app.results.senders.http import HttpSender
from app.results.senders.kafka import KafkaSender
from app.results.senders.mqtt import MqttSender
from app.results.senders.redis_stream import RedisSender

TRY_S = 15.0
logger = logging.getLogger(__name__)


class SinkSender(Protocol):
    """What delivers to one kind of sink."""

    def send(self, sink: Sink, deliveries: Sequence[Delivery]) -> str:
        """Tries once. Returns why they were not taken; empty: all of them were.

        Raises:
            TooLarge: The receiver never takes so much at once.
        """


def network_senders(networks: Sequence[Network]) -> dict[SinkKind, SinkSender]:
    """Returns the senders over the network by kind. networks: private ones that may be sent to."""
    return {
        SinkKind.HTTP: HttpSender(networks, try_s=TRY_S),
        SinkKind.MQTT: MqttSender(networks, try_s=TRY_S),
        SinkKind.HOME_ASSISTANT: MqttSender(networks, try_s=TRY_S, messages=home_assistant_messages),
        SinkKind.REDIS: RedisSender(networks, try_s=TRY_S),
        SinkKind.KAFKA: KafkaSender(networks, try_s=TRY_S),
    }


def try_to_send(senders: Mapping[SinkKind, SinkSender], sink: Sink, deliveries: Sequence[Delivery]) -> str:
    """As SinkSender.send, whatever goes wrong: one sink's fault must not keep the others."""
    try:
        return senders[sink.kind].send(sink, deliveries)
    except TooLarge:
        raise
    except Exception as error:  # of a library, or of ours
        logger.exception("Nothing was sent to a sink of %s", sink.uid)
        return f"a fault of this service: {type(error).__name__}"
