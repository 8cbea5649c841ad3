"""One attempt to deliver rows or events to a sink: by HTTP or MQTT, to Home Assistant, Redis, Kafka, or files."""

from app.results.senders.home_assistant import home_assistant_messages
from app.results.senders.home_files import FileSender
from app.results.senders.http import HttpSender
from app.results.senders.kafka import KafkaSender
from app.results.senders.mqtt import MqttSender
from app.results.senders.redis_stream import RedisSender
