"""One try to hand rows or events to a sink: by HTTP or MQTT, as Home Assistant takes them, to Redis, or to files."""

from app.video.senders.home_assistant import home_assistant_messages
from app.video.senders.home_files import FileSender
from app.video.senders.http import HttpSender
from app.video.senders.mqtt import MqttSender
from app.video.senders.redis_stream import RedisSender

__all__ = ["FileSender", "HttpSender", "MqttSender", "RedisSender", "home_assistant_messages"]
