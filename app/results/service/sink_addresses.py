"""Validates the addresses of sinks, and determines their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

from app.kit.errors import ModelmillError
from app.kit.network.addresses import Network, read_networks
from app.kit.network.public_hosts import check_url, require_public_host
from app.results.errors import BadSink
from app.results.model.kafka_address import KafkaAddress
from app.results.model.sink import SCHEMES, SinkKind
from app.results.senders.kafka import require_kafka

ANY_NETWORK = read_networks("0.0.0.0/0 ::/0")
MOST_CHARACTERS = 1000
ANY_HINT = (
    "An address begins with https://, http://, mqtts://, mqtt://, redis://, kafkas:// or kafka://, or it is a folder "
    "of your data home, such as datasets/door."
)
MQTT_HINT = "Give one as mqtt://host/cameras/door or mqtts://user:password@host/cameras/door; no +, # and ?."
REDIS_HINT = "Give one as redis://host/0/cameras:door or redis://user:password@host/0/cameras:door; no # and ?."
KAFKA_HINT = (
    "Give one as kafka://host:9092/cameras.door or kafkas://user:password@host1:9093,host2:9093/cameras.door?key=node; "
    "the key is source, node or none."
)


def check_address(
    kind: SinkKind, address: str, networks: Sequence[Network], check_folder: Callable[[str], None]
) -> str:
    """Returns the address as it is stored.

    Args:
        networks: private networks that may be sent to.
        check_folder: raises ModelmillError unless it is a folder in which files may be written.

    Raises:
        BadUrl, BadSink: It is not valid for this kind.
        AddressRefused: Its host must not be sent to. A name is checked when it is used.
        ExtraMissing: Its library is not installed here.
    """
    text = address.strip()
    if kind is SinkKind.HTTP:
        scheme, separator, _ = text.partition("://")
        if separator and scheme.lower() not in SCHEMES[kind]:
            raise BadSink(f"{text[:200]!r} is no address of a sink of this type.", hint=ANY_HINT)
        return check_url(address, networks)
    if kind is SinkKind.FILE:
        return _check_folder(text, check_folder)
    if kind is SinkKind.KAFKA:
        return _check_kafka(text, networks)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    path = unquote(parts.path.strip("/")) if host else ""
    is_redis = kind is SinkKind.REDIS
    is_good = parts.scheme in SCHEMES[kind] if host else False
    is_good = is_good and text.isprintable() and not set(text) & set("#?") and len(text) <= MOST_CHARACTERS
    if not is_good or not (_is_stream(path) if is_redis else _is_topic(path)):
        what = "a stream" if is_redis else "a topic"
        raise BadSink(f"{text[:200]!r} is no address of {what}.", hint=REDIS_HINT if is_redis else MQTT_HINT)
    require_public_host(str(host), networks)
    return text


def _check_folder(text: str, check_folder: Callable[[str], None]) -> str:
    try:
        check_folder(text)
    except ModelmillError as error:
        hint = "Give one below datasets/, models/ or code/, as datasets/door."
        raise BadSink(f"Files cannot be written there: {error.message}", hint=hint) from error
    return text


def _check_kafka(text: str, networks: Sequence[Network]) -> str:
    try:
        address = KafkaAddress.parse(text if text.isprintable() and len(text) <= MOST_CHARACTERS else "")
    except ValueError:
        raise BadSink(f"{text[:200]!r} is no address of a topic of Kafka.", hint=KAFKA_HINT) from None
    require_kafka()
    for host, _ in address.brokers:
        require_public_host(host, networks)
    return text


def _is_stream(path: str) -> bool:
    database, _, name = path.partition("/")
    return database.isascii() and database.isdecimal() and len(database) < 4 and bool(name) and name.isprintable()


def _is_topic(path: str) -> bool:
    return bool(path) and path.isprintable() and not set(path) & set("+#")
