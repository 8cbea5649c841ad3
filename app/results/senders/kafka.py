"""Rows and events to a topic of Kafka, at least once: a structured CloudEvent each, acknowledged by all replicas."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from app.kit.errors import ExtraMissing
from app.kit.network.addresses import host_and_port
from app.kit.network.checked_loop import CheckedLoop
from app.kit.network.checked_post import NotSent
from app.results.model.kafka_address import KafkaAddress
from app.results.model.sink import Delivery, Sink, TooLarge
from app.results.senders.mqtt import CONTENT_TYPE
from app.results.senders.server import NetworkSender

if TYPE_CHECKING:
    from aiokafka import AIOKafkaProducer

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""By which a user logs in: the first that the broker offers."""
CLOSE_S = 1.0
"""How long a failed try may take to end."""
MOST_ITERATIONS = 100_000
"""Of SCRAM: the broker says how many, Kafka's default is 4096, and nothing could end their computation."""
TOO_FEW = "the broker stores nothing: too few replicas of the topic are in sync"
REFUSALS = {
    "NotEnoughReplicasError": TOO_FEW,
    "NotEnoughReplicasAfterAppendError": TOO_FEW,
    "KafkaStorageError": "the broker stores nothing: its disk is full or broken",
}
"""By the library's name: why messages are refused until somebody does something about it."""


def require_kafka() -> None:
    """Checks that the library is installed here.

    Raises:
        ExtraMissing: It is not.
    """
    if find_spec("aiokafka") is None:
        hint = "On the web server and the workers: pip install 'modelmill[kafka]'."
        raise ExtraMissing("aiokafka, which sends to Kafka, is not installed here.", hint=hint)


class _Unusable(Exception):
    """Why a broker cannot be used."""


class KafkaSender(NetworkSender):
    """Sends to Kafka."""

    def send(self, sink: Sink, deliveries: Sequence[Delivery]) -> str:
        """Returns why they were not accepted; empty if all replicas have acknowledged each.

        Raises:
            TooLarge: A message exceeds the limit.
        """
        try:
            require_kafka()
        except ExtraMissing as error:
            return error.message.rstrip(".")
        from aiokafka.errors import KafkaError  # imported only when something is sent

        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what goes wrong is shown with the sink
        _adapt_library()
        attempt = _Attempt(KafkaAddress.parse(sink.address), f"modelmill-{sink.client_id}", self.try_s)
        with asyncio.Runner(loop_factory=partial(CheckedLoop, self.networks)) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, CheckedLoop)
            try:
                runner.run(attempt.carry_out(deliveries))
            except NotSent as error:
                return f"Kafka: {loop.problem}" if loop.has_read_too_much else str(error)
            except TimeoutError:
                return loop.problem or f"no answer within {self.try_s:g} s"
            except (KafkaError, OSError) as error:
                return REFUSALS.get(type(error).__name__) or f"Kafka: {error or type(error).__name__}"
        return ""


@cache
def _adapt_library() -> None:
    """Has the library compute at most MOST_ITERATIONS, as a broker can be anybody's, and one that is to be computed for
    hours would keep a thread, for which all other sinks wait; and end a try with REFUSALS, which it would repeat until
    the time is over."""
    from aiokafka import conn
    from aiokafka.producer import sender

    class BoundedScram(conn.ScramAuthenticator):  # type: ignore[misc]  # mypy does not look into it
        def create_salted_password(self, salt: bytes, iterations: int) -> None:
            if iterations > MOST_ITERATIONS:
                raise NotSent(f"the broker demands {iterations} iterations of SCRAM: more than {MOST_ITERATIONS}")
            super().create_salted_password(salt, iterations)

    class EndedProduce(sender.SendProduceReqHandler):  # type: ignore[misc]  # likewise
        def _can_retry(self, error: Exception, batch: Any) -> bool:
            return type(error).__name__ not in REFUSALS and bool(super()._can_retry(error, batch))

    conn.ScramAuthenticator = BoundedScram
    sender.SendProduceReqHandler = EndedProduce


class _Attempt:
    def __init__(self, address: KafkaAddress, client_id: str, try_s: float) -> None:
        self._address = address
        self._options: dict[str, Any] = {"client_id": client_id, "request_timeout_ms": int(try_s * 1000)}
        self._try_s = try_s
        has_login = address.user is not None
        protocol = "SSL" if address.is_encrypted else "PLAINTEXT"
        self._options["security_protocol"] = f"SASL_{protocol}" if has_login else protocol
        if address.is_encrypted:
            self._options["ssl_context"] = ssl.create_default_context()
        if has_login:
            self._options |= {"sasl_plain_username": address.user, "sasl_plain_password": address.password}
        self._mechanisms = MECHANISMS if has_login else ("PLAIN",)

    async def carry_out(self, deliveries: Sequence[Delivery]) -> None:
        """Returns when all are acknowledged."""
        async with asyncio.timeout(self._try_s):
            await self._look()
            if not await self._has_sent(deliveries, is_idempotent=True):
                await self._has_sent(deliveries, is_idempotent=False)

    async def _look(self) -> None:
        """Finds a broker that answers, and how to log in, and checks the topic, since the producer would not say what
        is wrong. Raises NotSent, with the reason of each broker."""
        problems, brokers = [], self._address.brokers
        share_s = self._try_s / 2 / len(brokers) if len(brokers) > 1 else None  # leaves time for others
        for host, port in brokers:
            try:
                async with asyncio.timeout(share_s):
                    await self._look_at(host, port)
            except _Unusable as error:
                problems.append(str(error))
            except TimeoutError:
                problems.append(f"{host_and_port(host, port)} has not answered within {share_s:g} s")
            else:
                return
        raise NotSent("; ".join(problems))

    async def _look_at(self, host: str, port: int) -> None:
        """Raises _Unusable: of this broker; NotSent: of the topic, so other brokers would not help."""
        from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed, UnsupportedSaslMechanismError

        broker = host_and_port(host, port)
        for mechanism in self._mechanisms:
            try:
                problem = await self._find_topic_problem(host, port, mechanism)
            except UnsupportedSaslMechanismError:
                continue
            except (SaslAuthenticationFailed, KeyError, ValueError) as error:  # the last two by SCRAM
                raise _Unusable(f"{broker} has refused the user or the password") from error
            except KafkaConnectionError as error:
                raise _Unusable(
                    f"{broker} has closed the connection: it may expect TLS (kafkas://), or a user and a password"
                ) from error
            except OSError as error:
                raise _Unusable(str(error)) from error
            if problem:
                raise NotSent(problem)
            self._options |= {"sasl_mechanism": mechanism, "bootstrap_servers": broker}
            return
        raise _Unusable(f"{broker} offers none of {', '.join(self._mechanisms)}")

    async def _find_topic_problem(self, host: str, port: int, mechanism: str) -> str:
        """Returns why the topic cannot be written to; empty if it can."""
        from aiokafka.conn import create_conn
        from aiokafka.errors import LeaderNotAvailableError, NoError, UnknownTopicOrPartitionError, for_code
        from aiokafka.protocol.metadata import MetadataRequest

        topic = self._address.topic
        connection = await create_conn(host, port, sasl_mechanism=mechanism, **self._options)
        try:
            answer = await connection.send(MetadataRequest([topic], allow_auto_topic_creation=False))
        finally:
            connection.close()
        problem = for_code(answer.topics[0][0])
        if problem is UnknownTopicOrPartitionError:
            return f"there is no topic {topic}, and none is made: create it"
        return "" if problem in (NoError, LeaderNotAvailableError) else f"topic {topic}: {problem.description}"

    async def _has_sent(self, deliveries: Sequence[Delivery], *, is_idempotent: bool) -> bool:
        """Returns False where the broker lets this user have no producer id, or has none to give. Without one, a lost
        acknowledgement repeats messages, as a lost try does anyway."""
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import ClusterAuthorizationFailedError, UnknownError, UnsupportedVersionError

        producer = AIOKafkaProducer(acks="all", enable_idempotence=is_idempotent, **self._options)
        try:
            await producer.start()
        except (ClusterAuthorizationFailedError, UnknownError, UnsupportedVersionError):
            if not is_idempotent:
                raise
            return False
        else:
            await self._publish(producer, deliveries)
            return True
        finally:
            with suppress(TimeoutError):
                await asyncio.wait_for(producer.stop(), CLOSE_S)
            await producer.client.close()

    async def _publish(self, producer: AIOKafkaProducer, deliveries: Sequence[Delivery]) -> None:
        from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError

        headers = [("content-type", CONTENT_TYPE.encode())]
        acknowledgements = []
        try:
            for delivery in deliveries:
                value, key = json.dumps(delivery.envelope).encode(), self._address.key_of(delivery.envelope)
                acknowledgements.append(await producer.send(self._address.topic, value, key=key, headers=headers))
            await asyncio.gather(*acknowledgements)
        except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
            raise TooLarge("a message is too large for the topic (at most 1 MiB, or its max.message.bytes)") from error
