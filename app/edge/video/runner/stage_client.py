"""The stage hosts as seen from a runner: selects the host of a stage, and calls it.

A stage runs where the plan puts it, and on the node's own host while that one is unreachable.
"""

from __future__ import annotations

import http.client
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from app.edge.video.stage_host.errors import NoDecoder, StageDied, StageHung, StagePaused
from app.edge.video.stage_host.fair_queue import MOST_WAITING
from app.kit.errors import ModelmillError
from app.kit.network.tls import Credentials, tls_name
from app.kit.text.untrusted_json import UnreadableJson, read_object
from app.video.model.job import StageHost
from app.video.model.stage_call import Call, KeyframeNeeded, PictureNotKept, pack_call

logger = logging.getLogger(__name__)


CONNECT_S = 2.0
CODES: Mapping[str, type[ModelmillError]] = {error.code: error for error in (KeyframeNeeded, PictureNotKept, NoDecoder)}
NOT_READY = frozenset({401, 403, 404, 429, 502, 503, 504})
"""Statuses of a host that is reachable but does not serve this stage to the job now."""
OF_STAGE = frozenset({StageHung.code, StageDied.code, StagePaused.code})
"""Codes of those that are the stage's own fault."""


class HostAway(Exception):
    """The host cannot be reached, or does not answer in time."""

    def __init__(self, message: str, *, was_slow: bool = False) -> None:
        """Creates it. `was_slow`: the host accepted the call and gave no answer."""
        super().__init__(message)
        self.was_slow = was_slow


class HostNotReady(Exception):
    """The host is reachable, but does not serve the stage now."""


class StageFailed(Exception):
    """The stage itself refused this frame, or failed on it."""


@dataclass(frozen=True)
class StageAnswer:
    """The answer of a host to a call."""

    outputs: Mapping[str, Any]
    delay_s: float
    """Seconds from the call to the answer, including the network."""
    server_s: float
    """Seconds of computing, reported by the host."""
    queue_s: float
    """Seconds of waiting, at the host and before it could be sent."""
    sent: int
    """Size of the body in bytes."""
    way_s: float = 0.0
    """The part of the delay that the host did not use, in seconds."""
    model: object = None
    """Name on the card of the model that was used, as the host tells it."""


class StageClient:
    """Calls stages over HTTP. Any number of threads may use it.

    A host gets no more concurrent calls than a job may have waiting there: it would refuse them, and the parallel
    stages of a graph make many.
    """

    def __init__(self, tls: Sequence[str] = ()) -> None:
        """Creates it. `tls` has the paths of this node's credentials, for encrypted hosts; empty: it has none."""
        self._tls = tuple(tls)
        self._credentials = Credentials.from_json(tls)
        self._slots: dict[str, threading.Semaphore] = {}
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def use(self, tls: Sequence[str]) -> None:
        """Uses these credentials from now on, if they differ; the same files are read again if they were replaced."""
        if self._tls != tuple(tls):
            self._tls, self._credentials = tuple(tls), Credentials.from_json(tls)
        elif self._credentials is not None:
            self._credentials.refresh()

    def call(
        self, host: StageHost, call: Call, timeout_s: float, sent: Callable[[], None] = lambda: None
    ) -> StageAnswer:
        """Calls a host and waits for its answer.

        Args:
            timeout_s: seconds for connecting, sending and the answer together.
            sent: called when the whole request is on its way.

        Raises:
            HostAway, HostNotReady: Nothing was computed.
            StageFailed: The stage itself failed.
            PictureNotKept: The host no longer has a picture of this name: send it whole.
            KeyframeNeeded: The host cannot decode a video stream from here on.
            NoDecoder: The host cannot decode videos at all.
        """
        body, headers, query = pack_call(call)
        path = f"/service/{quote(call.stage, safe='')}" + (f"?{urlencode(query)}" if query else "")
        headers = {**headers, "authorization": f"Bearer {host.secret}"}
        called = time.perf_counter()
        with self._get_slot(host.url):
            began = time.perf_counter()
            status, data = self._exchange(host, "POST", path, body, headers, timeout_s, sent)
        return _read(status, data, time.perf_counter() - began, began - called, len(body), host)

    def prepare(self, host: StageHost, job: str, stage: str, model_id: int, timeout_s: float) -> None:
        """Has a host open a model before frames need it. An older host that cannot is left alone.

        Args:
            job: the id of the job, which may have stages of its own.
            timeout_s: seconds for connecting and the answer together.

        Raises:
            HostAway: It is not reachable, or needs longer.
            StageFailed: The model cannot be opened.
        """
        path = f"/prepare/{quote(stage, safe='')}?model_id={model_id}"
        headers = {"authorization": f"Bearer {host.secret}", "x-job": job}
        status, data = self._exchange(host, "POST", path, b"", headers, timeout_s)
        if status not in (200, 404):
            raise StageFailed(f"{host.node} answered {status}: {data[:300].decode(errors='replace')}")

    def is_there(self, host: StageHost, timeout_s: float = CONNECT_S) -> bool:
        """Returns whether the host answers at all."""
        try:
            self._exchange(host, "GET", "/healthz", b"", {"authorization": f"Bearer {host.secret}"}, timeout_s)
        except HostAway:
            return False
        return True

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for connections in self._idle.values():
                for connection in connections:
                    connection.close()
            self._idle.clear()

    def _exchange(
        self,
        host: StageHost,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float,
        sent: Callable[[], None] = lambda: None,
    ) -> tuple[int, bytes]:
        """Sends a request. A kept connection that the host has closed meanwhile is replaced by a new one, once."""
        url = host.url
        connection = self._take_kept(url)
        if connection is not None:
            with suppress(_Stale):
                return self._send_through(connection, url, method, path, body, headers, timeout_s, sent, is_fresh=False)
        fresh = _connect(host, self._credentials, timeout_s)
        return self._send_through(fresh, url, method, path, body, headers, timeout_s, sent, is_fresh=True)

    def _send_through(
        self,
        connection: http.client.HTTPConnection,
        url: str,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float,
        sent: Callable[[], None],
        *,
        is_fresh: bool,
    ) -> tuple[int, bytes]:
        try:
            connection.sock.settimeout(timeout_s)
            connection.request(method, path, body, dict(headers))
            sent()
            response = connection.getresponse()
            data = response.read()
        except TimeoutError as error:
            connection.close()
            raise HostAway(f"{url} did not answer within {timeout_s:g} s", was_slow=True) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if not is_fresh:
                raise _Stale from error
            raise HostAway(f"{url} cannot be reached: {error or type(error).__name__}") from error
        with self._lock:
            if response.will_close or self._is_closed:
                connection.close()
            else:
                self._idle.setdefault(url, []).append(connection)
        return response.status, data

    def _get_slot(self, url: str) -> threading.Semaphore:
        with self._lock:
            return self._slots.setdefault(url, threading.Semaphore(MOST_WAITING))

    def _take_kept(self, url: str) -> http.client.HTTPConnection | None:
        with self._lock:
            idle = self._idle.get(url)
            return idle.pop() if idle else None


class _Stale(Exception):
    pass


def _connect(host: StageHost, credentials: Credentials | None, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(host.url)
    if parts.scheme == "https" and credentials is None:
        raise HostAway(f"{host.url} is encrypted, and this node has no certificate")
    try:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=min(CONNECT_S, timeout_s))
        connection.connect()
        if parts.scheme == "https" and credentials is not None:
            connection.sock = credentials.client.wrap_socket(connection.sock, server_hostname=tls_name(host.node))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise HostAway(f"{host.url} cannot be reached: {error}") from error
    return connection


def _read(status: int, data: bytes, delay_s: float, waited_s: float, sent: int, host: StageHost) -> StageAnswer:
    """Reads the answer. `delay_s`: seconds of network and host; `waited_s`: seconds before it was sent."""
    try:
        answer = read_object(data)
    except UnreadableJson:
        raise StageFailed(f"{host.node} answered {status} with no JSON object") from None
    if status == 200:
        server_s, queue_s, decode_s = (
            _parse_seconds(answer.pop(f"{name}_ms", 0)) for name in ("server", "queue", "decode")
        )
        way_s = max(0.0, delay_s - server_s - queue_s - decode_s)
        model = answer.get("model")
        return StageAnswer(answer, waited_s + delay_s, server_s, waited_s + queue_s, sent, way_s, model)
    code, message = _read_reason(answer)
    if code in CODES:
        raise CODES[code](message)
    if status in NOT_READY and code not in OF_STAGE:
        raise HostNotReady(f"{host.node} answered {status}: {message}")
    raise StageFailed(f"{host.node} answered {status}: {message}")


def _parse_seconds(value: object) -> float:
    return float(value) / 1000 if isinstance(value, int | float) else 0.0


def _read_reason(answer: Mapping[str, Any]) -> tuple[str, str]:
    """Returns code and text of {"error": {code, message}} or {"status": 1, "error": text, "code": …}."""
    error = answer.get("error")
    if isinstance(error, dict):
        return str(error.get("code", "")), str(error.get("message", ""))[:300]
    return str(answer.get("code", "")), str(error or "no reason was given")[:300]
