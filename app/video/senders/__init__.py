"""One try to hand rows or events to a sink, by HTTP or MQTT."""

from app.video.senders.http import HttpSender
from app.video.senders.mqtt import MqttSender

__all__ = ["HttpSender", "MqttSender"]
