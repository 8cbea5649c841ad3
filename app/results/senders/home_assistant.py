"""Rows and events for Home Assistant over MQTT: sensors that it discovers, and their last state, retained."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from app.kit.text.json_values import JsonObject
from app.results.model.sink import Delivery, Sink, SinkContent
from app.results.senders.mqtt import MqttMessage

PREFIX = "homeassistant"
"""Topic prefix at which Home Assistant discovers devices by default."""


def home_assistant_messages(sink: Sink, topic: str, deliveries: Sequence[Delivery]) -> list[MqttMessage]:
    """Returns the device with its sensors, then the newest state of rows, or each event in order."""
    envelopes = [delivery.envelope for delivery in deliveries]
    data = envelopes[-1]["data"]
    if deliveries[-1].is_test:
        states = [MqttMessage(f"{topic}/test", json.dumps(envelopes[-1]))]
        sensors = {}
    elif sink.content is SinkContent.ROWS:
        state = row_state(envelopes[-1])
        states = [MqttMessage(f"{topic}/state", json.dumps(state), is_retained=True)]
        sensors = _describe_sensors(sink, topic, state["counts"])
    else:
        states = [MqttMessage(f"{topic}/event", json.dumps(event_state(one)), is_retained=True) for one in envelopes]
        sensors = _describe_event_sensors(sink, topic)
    return [*([_describe_device(sink, data, sensors)] if sensors else []), *states]


def row_state(envelope: Mapping[str, Any]) -> JsonObject:
    """Returns {time, frame, objects: number, labels: number of each, counts}."""
    data = envelope["data"]
    labels = Counter(one["label"] for one in data["objects"] if one["label"])
    facts = {"objects": len(data["objects"]), "labels": dict(labels), "counts": dict(data["counts"])}
    return {"time": envelope["time"], "frame": data["frame"], **facts}


def event_state(envelope: Mapping[str, Any]) -> JsonObject:
    """Returns {time, frame, rule, zone, text}."""
    return {"time": envelope["time"], **{name: envelope["data"][name] for name in ("frame", "rule", "zone", "text")}}


def _describe_device(sink: Sink, data: Mapping[str, Any], sensors: Mapping[str, JsonObject]) -> MqttMessage:
    """Describes the whole device in one topic; an empty message there removes it."""
    config = {
        "device": {
            "identifiers": [f"modelmill_{sink.uid}"],
            "name": data.get("service") or f"{data['node']} {data['video_id']}",
            "manufacturer": "Modelmill",
            "model": "Service" if "service" in data else "Video job",
            "serial_number": sink.uid,
        },
        "origin": {"name": "Modelmill"},
        "components": dict(sensors),
        "qos": 1,
    }
    return MqttMessage(f"{PREFIX}/device/modelmill_{sink.sink_id}/config", json.dumps(config), is_retained=True)


def _describe_sensors(sink: Sink, topic: str, counts: Mapping[str, float]) -> dict[str, JsonObject]:
    values = {"objects": "value_json.objects"} | {
        f"count_{name}": f"value_json.counts[{json.dumps(name)}]" for name in counts
    }
    return {
        key: {
            "platform": "sensor",
            "unique_id": f"modelmill_{sink.sink_id}_{key}",
            "name": key.removeprefix("count_"),
            "state_topic": f"{topic}/state",
            "json_attributes_topic": f"{topic}/state",
            "value_template": f"{{{{ {value} }}}}",
            "state_class": "measurement",
        }
        for key, value in values.items()
    }


def _describe_event_sensors(sink: Sink, topic: str) -> dict[str, JsonObject]:
    return {
        "last_event": {
            "platform": "sensor",
            "unique_id": f"modelmill_{sink.sink_id}_last_event",
            "name": "last event",
            "state_topic": f"{topic}/event",
            "json_attributes_topic": f"{topic}/event",
            "value_template": "{{ value_json.time }}",
            "device_class": "timestamp",
        }
    }
