"""Connections to Redis for the hot path: scripts are called without a pool, a lock or a wrapper.

redis-py's own way takes half as long again, and a job needs a dozen such calls.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, TypeVar
from weakref import WeakSet

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.retry import Retry

Command = tuple[Any, ...]
T = TypeVar("T")
READ_BYTES = 65536
TIMEVAL = Struct("@ll")
"""The kernel's own form of a timeout: Python's asks it before each call whether the call would have to wait."""


def database(client: redis.Redis) -> int:
    """Returns the number of the database that this client uses."""
    return int(client.connection_pool.connection_kwargs.get("db") or 0)


def as_map(flat: Sequence[T]) -> dict[T, T]:
    """Converts the flat list of names and values of Redis' scripts and older protocol into a map."""
    parts = iter(flat)
    return dict(zip(parts, parts, strict=True))


class RedisConnection:
    """One connection for one thread: sends several commands at once and reads all their replies.

    redis-py opens the connection (address, password, database, TLS, timeouts); hiredis reads and writes.

    Args:
        encoding: of the replies, which are bytes without it.
    """

    def __init__(self, client: redis.Redis, encoding: str | None = None) -> None:
        self._socket: Any = None
        self._allowed_s = 0.0
        self._encoding = encoding
        pool = client.connection_pool
        settings = {**pool.connection_kwargs, "retry": Retry(NoBackoff(), 0)}
        self._connection: Any = pool.connection_class(**settings)

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def allow(self, seconds: float) -> None:
        """How much longer than the socket's timeout the replies may take, from the next commands on."""
        if seconds != self._allowed_s:
            self._allowed_s = seconds
            self._set_timeout()

    def ask(self, commands: list[Command]) -> list[Any]:
        """Returns the replies in order; an error reply is returned, not raised.

        Raises:
            ConnectionError: The connection is broken.
            TimeoutError: No reply came in time.
        """
        self.send(commands)
        return [self.receive() for _ in commands]

    def send(self, commands: list[Command]) -> None:
        """Sends the commands alone. Receive all their replies before you send again. Raises as `ask`."""
        if self._socket is None:
            self._open()
        try:
            self._socket.sendall(b"".join(map(hiredis.pack_command, commands)))
        except OSError as error:
            raise self._make_lost(error) from error
        except BaseException:  # also on an interrupt: an unread reply must not answer the next command
            self.close()
            raise

    def receive(self) -> Any:
        """Waits for the next reply. Raises as `ask`."""
        try:
            reply = self._reader.gets()
            while reply is False:  # incomplete
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise ConnectionResetError("closed by the server")
                self._reader.feed(data)
                reply = self._reader.gets()
        except OSError as error:
            raise self._make_lost(error) from error
        except BaseException:  # also on an interrupt: an unread reply must not answer the next command
            self.close()
            raise
        return _make_redis_error(reply) if isinstance(reply, hiredis.ReplyError) else reply

    def close(self) -> None:
        self._socket = None
        self._connection.disconnect()

    def __del__(self) -> None:
        """Closes it together with the thread that owns it."""
        if self._socket is not None:
            self.close()

    def _open(self) -> None:
        self._connection.connect()
        self._socket = self._connection._sock
        self._timeout_s = self._socket.gettimeout()
        self._set_timeout()
        self._reader = hiredis.Reader(encoding=self._encoding)

    def _set_timeout(self) -> None:
        if self._socket is None or self._timeout_s is None:
            return
        seconds = self._timeout_s + self._allowed_s
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(seconds)
            return
        self._socket.settimeout(None)
        whole_s = int(seconds)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, option, TIMEVAL.pack(whole_s, int((seconds - whole_s) * 1e6)))

    def _make_lost(self, error: OSError) -> redis.RedisError:
        self.close()
        if isinstance(error, (TimeoutError, BlockingIOError)):
            return redis.TimeoutError("Redis does not answer in time.")
        return redis.ConnectionError(f"The connection to Redis is lost: {error}")


def _make_redis_error(error: Exception) -> redis.RedisError:
    text = str(error)
    if text.startswith("LOADING"):
        return redis.BusyLoadingError(text)
    return NoScriptError(text) if text.startswith("NOSCRIPT") else redis.ResponseError(text)


class ConnectionPool:
    """One connection per thread. A lost connection is retried as the client's retry policy says."""

    def __init__(self, client: redis.Redis, encoding: str | None = None) -> None:
        self._client = client
        self._encoding = encoding
        self._retry: Retry = client.connection_pool.connection_kwargs.get("retry") or Retry(NoBackoff(), 0)
        self._own = threading.local()
        self._open: WeakSet[RedisConnection] = WeakSet()

    def ask(self, commands: list[Command]) -> list[Any]:
        line: RedisConnection | None = getattr(self._own, "line", None)
        if line is None:
            line = self._own.line = RedisConnection(self._client, self._encoding)
            self._open.add(line)
        return self._retry.call_with_retry(lambda: line.ask(commands), lambda _: line.close())

    def close(self) -> None:
        for line in list(self._open):
            line.close()


class Script:
    """A script called by its hash; a server that does not know it (any more) receives it once."""

    def __init__(self, lines: ConnectionPool, text: str) -> None:
        self._lines = lines
        self.text = text
        self.sha = hashlib.sha1(text.encode()).hexdigest()  # noqa: S324  # Redis names scripts so

    @property
    def load(self) -> Command:
        return ("SCRIPT", "LOAD", self.text)

    def command(self, keys: Iterable[Any], args: Iterable[Any]) -> Command:
        keys = list(keys)
        return ("EVALSHA", self.sha, len(keys), *keys, *args)

    def __call__(self, keys: Iterable[Any], args: Iterable[Any]) -> Any:
        return self.ask(keys, args)[0]

    def ask(self, keys: Iterable[Any], args: Iterable[Any], *more: Command) -> list[Any]:
        """Returns the script's answer, then those of further commands, sent in the same round trip."""
        commands = [self.command(keys, args), *more]
        answers = self._lines.ask(commands)
        if isinstance(answers[0], NoScriptError):
            self._lines.ask([self.load])
            answers = self._lines.ask(commands)
        for answer in answers:
            if isinstance(answer, redis.RedisError):
                raise answer
        return answers


@dataclass(frozen=True)
class ScriptCall:
    """A call of a script as a value: made directly, or sent with other commands."""

    script: Script
    keys: Sequence[Any]
    args: Sequence[Any]

    def __call__(self) -> Any:
        return self.script(self.keys, self.args)

    def with_acknowledgement(self, *message: Any) -> Command:
        """Returns the command that also acknowledges a message, if the script can (record_scripts.ACKNOWLEDGE)."""
        return self.script.command([*self.keys, *message], self.args)
