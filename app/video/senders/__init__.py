"""One try to hand rows or events to a sink: by HTTP, by MQTT, also as Home Assistant takes them, or to Redis."""

from app.video.senders.home_assistant import home_assistant_messages
from app.video.senders.http import HttpSender
from app.video.senders.mqtt import MqttSender
from app.video.senders.redis_stream import RedisSender

__all__ = ["HttpSender", "MqttSender", "RedisSender", "home_assistant_messages"]
