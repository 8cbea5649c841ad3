"""Asks the edge worker of a service, which an agent runs on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from modelmill_edge.errors import Refused, ServiceNotRunning, Unreachable
from modelmill_edge.picture import PictureLike, encode
from modelmill_edge.prediction import Outcome

DEFAULT_AGENT = "http://127.0.0.1:9100"
RUNNING = "running"
POLL_S = 0.5


class JointInference:
    """The edge worker of one service. For any thread; close it, or use it in a `with`.

    Args:
        service: its name.
        namespace: its namespace.
        agent: URL of the node's agent; empty: that of LC_SERVER, which an agent sets for scripts, else this machine's.
        token: the node's token; needed from another machine only.
        uid: of the service, where users of a node have services of one name.
        wait_s: how long to wait for a worker that is not running yet.
        timeout_s: of one request.
        senders: how many pictures of submit() are under way at once.

    Raises:
        Unreachable: no agent answers.
        ServiceNotRunning: the node has no such service, or its worker did not run within wait_s.
    """

    def __init__(
        self,
        service: str,
        *,
        namespace: str = "default",
        agent: str = "",
        token: str = "",
        uid: str = "",
        wait_s: float = 30.0,
        timeout_s: float = 30.0,
        senders: int = 4,
    ) -> None:
        self.service = service
        self.namespace = namespace
        self._uid = uid
        self._agent = (agent or os.environ.get("LC_SERVER") or DEFAULT_AGENT).rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(timeout=timeout_s, trust_env=False)
        self._agent_headers = headers
        self._senders = ThreadPoolExecutor(senders, thread_name_prefix="picture")
        try:
            self.url = self._worker_url(wait_s)
        except BaseException:
            self.close()
            raise

    def infer(self, picture: PictureLike, *, id: str = "") -> Outcome:
        """The final answer to one picture. Waits for the cloud, at most until the service's deadline.

        Args:
            picture: a path, the bytes of a JPEG or PNG, an array (H×W×3 RGB or H×W grey, uint8), or a Pillow image.
            id: names the sample in results; empty: the worker makes one up.

        Raises:
            TypeError, ValueError, OSError: this is no picture.
            Refused: the worker does not take it.
            Unreachable: the worker does not answer, also at the address that the agent has for it now.
        """
        encoded = encode(picture)
        files: dict[str, Any] = {"picture": ("picture", encoded.data, encoded.content_type)}
        if id:
            files["id"] = (None, id)
        try:
            response = self._predict(files)
        except Unreachable:  # it may have been started again, at another port
            self.url = self._worker_url(0)
            response = self._predict(files)
        _check(response)
        return Outcome.from_json(response.json())

    def submit(self, picture: PictureLike, *, id: str = "") -> Future[Outcome]:
        """As infer(), without waiting. The future raises what infer() raises."""
        return self._senders.submit(self.infer, picture, id=id)

    def status(self) -> Mapping[str, Any]:
        """What the worker says of itself: its status, runtime, and model with its hash."""
        response = self._ask("GET", f"{self.url}/healthz")
        _check(response)
        status: Mapping[str, Any] = response.json()
        return status

    def close(self) -> None:
        """Waits for the pictures that were submitted."""
        self._senders.shutdown(wait=True)
        self._http.close()

    def __enter__(self) -> JointInference:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _worker_url(self, wait_s: float) -> str:
        """Where the edge worker listens, as the agent says."""
        path = f"{self._agent}/neptune/services/{quote(self.namespace)}/{quote(self.service)}"
        until = time.monotonic() + wait_s
        while True:
            response = self._ask("GET", path, headers=self._agent_headers)
            if response.status_code != httpx.codes.NOT_FOUND:
                _check(response)
            url, problem = self._chosen(response.json().get("items", []))
            if url:
                return url
            if time.monotonic() >= until:
                raise ServiceNotRunning(problem)
            time.sleep(POLL_S)

    def _chosen(self, workers: list[Mapping[str, Any]]) -> tuple[str, str]:
        """The URL of the one edge worker that runs, and why there is none."""
        name = f"{self.namespace}/{self.service}"
        edges = [one for one in workers if one["role"] == "edge" and self._uid in ("", one["uid"])]
        if not edges:
            return "", f"This node has no edge worker of {name}."
        if len(edges) > 1:
            uids = ", ".join(str(one["uid"]) for one in edges)
            return "", f"Several services of this node are called {name}: give one of these as uid: {uids}."
        (edge,) = edges
        if edge["state"] == RUNNING and edge["url"]:
            return str(edge["url"]), ""
        return "", f"The edge worker of {name} is {edge['state']}. {edge['message']}".strip()

    def _predict(self, files: Mapping[str, Any]) -> httpx.Response:
        return self._ask("POST", f"{self.url}/{quote(self.service)}/predict", files=files)

    def _ask(self, method: str, url: str, **options: Any) -> httpx.Response:
        try:
            return self._http.request(method, url, **options)
        except httpx.TransportError as error:
            raise Unreachable(f"{url} does not answer: {error or type(error).__name__}.") from error


def _check(response: httpx.Response) -> None:
    if response.is_success:
        return
    try:
        error = response.json()["error"]
        message = " ".join(text for text in (error["message"], error.get("hint", "")) if text)
        code, can_retry = str(error["code"]), bool(error.get("can_retry"))
    except (ValueError, KeyError, TypeError):
        message, code, can_retry = f"{response.url} answered {response.status_code}.", "", False
    raise Refused(message, status=response.status_code, code=code, can_retry=can_retry)
