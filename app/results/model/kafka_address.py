"""The address of a Kafka sink: brokers to start with, topic, and the key of its messages. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from app.results.model.sink import PORTS

KEYS = ("source", "node", "none")
"""What the key of a message can be: with the same key they stay in order, in one partition."""
ADDRESS = re.compile(
    r"(?P<scheme>kafkas?)://((?P<login>[^/?#]*)@)?(?P<hosts>[^/?#@]+)"
    rf"/(?P<topic>(?!\.\.?(\?|$))[A-Za-z0-9._-]{{1,249}})(\?key=(?P<key>{'|'.join(KEYS)}))?"
)


@dataclass(frozen=True)
class KafkaAddress:
    """kafka[s]://[user:password@]host[:port][,host[:port]…]/topic[?key=source|node|none].

    Args:
        is_encrypted: by TLS.
        user: None if there is no login.
        password: of the user.
        brokers: hosts and ports to start with; any of them is enough.
        topic: where messages go.
        key: one of KEYS.
    """

    is_encrypted: bool
    user: str | None
    password: str
    brokers: tuple[tuple[str, int], ...]
    topic: str
    key: str

    @staticmethod
    def parse(text: str) -> KafkaAddress:
        parts = ADDRESS.fullmatch(text)
        if parts is None:
            raise ValueError("no address of a topic of Kafka")
        user, _, password = (parts["login"] or "").partition(":")
        brokers = tuple(_parse_broker(host, PORTS[parts["scheme"]]) for host in parts["hosts"].split(","))
        return KafkaAddress(
            is_encrypted=parts["scheme"] == "kafkas",
            user=unquote(user) if parts["login"] else None,
            password=unquote(password),
            brokers=brokers,
            topic=parts["topic"],
            key=parts["key"] or KEYS[0],
        )

    def key_of(self, envelope: Mapping[str, Any]) -> bytes | None:
        """Returns the key of the message with this envelope. Without a node, as in tests of services, it is the
        source."""
        if self.key == "none":
            return None
        return str(envelope["data"].get(self.key) or envelope["source"]).encode()


def _parse_broker(text: str, default_port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.path or parts.query:
        raise ValueError("no host")
    return parts.hostname, parts.port or default_port
