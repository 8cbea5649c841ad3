"""Addresses of Kafka sinks."""

from __future__ import annotations

import pytest

from app.results.model.kafka_address import KafkaAddress


def test_an_address_has_brokers_a_topic_and_a_key() -> None:
    plain = KafkaAddress.parse("kafka://broker.example.org/cameras.door")
    assert plain == KafkaAddress(False, None, "", (("broker.example.org", 9092),), "cameras.door", "source")
    text = "kafkas://mill:p%40ss%3Aword@a.example.org,[::1]:9000/cameras?key=node"
    encrypted = KafkaAddress.parse(text)
    brokers = (("a.example.org", 9093), ("::1", 9000))
    assert encrypted == KafkaAddress(True, "mill", "p@ss:word", brokers, "cameras", "node")


def test_the_key_of_a_message_is_its_source_node_or_none() -> None:
    envelope = {"source": "/api/v2/services/a/b", "data": {"node": "edge0"}}
    keys = {key: KafkaAddress.parse(f"kafka://b/t?key={key}").key_of(envelope) for key in ("source", "node", "none")}
    assert keys == {"source": b"/api/v2/services/a/b", "node": b"edge0", "none": None}
    assert KafkaAddress.parse("kafka://b/t?key=node").key_of({**envelope, "data": {}}) == keys["source"]


@pytest.mark.parametrize(
    "address",
    [
        "",
        "kafka://127.0.0.1",
        "kafka://127.0.0.1/a/b",
        "kafka://127.0.0.1/..",
        "kafka://127.0.0.1/a?key=color",
        "kafka://127.0.0.1/a?key",
        "kafka://127.0.0.1/a?acks=1",
        "kafka://127.0.0.1:port/a",
        "kafka://127.0.0.1,,127.0.0.2/a",
        "kafka://127.0.0.1/a#b",
        "kafka:///a",
        "mqtt://127.0.0.1/a",
    ],
)
def test_what_is_no_address_of_a_topic_is_refused(address: str) -> None:
    with pytest.raises(ValueError):
        KafkaAddress.parse(address)
