"""Tells the node's agent how this worker is: the requirement's information, and hard samples with their pictures.

An agent that is away is asked again each second; nothing that it answers is the end of this.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from app.edge.joint.samples import Samples
from app.edge.joint.work import Work
from app.joint_inference.model.resource import SINGULAR
from app.kit.process.periodic_thread import PeriodicThread

TICK_S = 1.0
AT_LEAST_EVERY_S = 10.0
TIMEOUT_S = 3.0
Say = Callable[[], Mapping[str, Any]]
"""What there is to say now: status, and taskInfo and detail where there are some."""
TIMES = ("startTime", "updateTime", "currentTime", "fps")
logger = logging.getLogger(__name__)


class StatusReporter:
    """keep: called each second as well: what is to be kept on disk."""

    def __init__(
        self, work: Work, say: Say, *, samples: Samples | None = None, keep: Callable[[], None] = lambda: None
    ) -> None:
        self.work = work
        self.say = say
        self.samples = samples
        self.keep = keep
        worker = work.content.worker.name
        self._owner = {
            "name": worker,
            "namespace": work.namespace,
            "ownerName": work.service,
            "ownerKind": SINGULAR,
            "kind": "inference",
            "uid": work.uid,
        }
        self._url = f"{work.agent_url.rstrip('/')}/neptune/workers/{worker}"
        self._client = httpx.Client(timeout=TIMEOUT_S, trust_env=False)
        self._said: Mapping[str, Any] | None = None
        self._said_at = 0.0
        self._is_away = False
        self._thread = PeriodicThread("report", self.step, every_s=TICK_S)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """One last report, if the agent is there."""
        self._thread.close()
        self.keep()
        self._said = None
        self._client.timeout = httpx.Timeout(2.0)
        self._report()
        self._client.close()

    def step(self) -> None:
        self.keep()
        if self.work.agent_url and self._report() and self.samples is not None:
            self._show(self.samples)

    def _report(self) -> bool:
        """False: the agent is away."""
        now, said = time.monotonic(), self.say()
        if _lasting(said) == self._said and now - self._said_at < AT_LEAST_EVERY_S:
            return True
        if not self.work.agent_url or not self._post("info", json={**self._owner, **said}):
            return False
        self._said, self._said_at = _lasting(said), now
        return True

    def _show(self, samples: Samples) -> None:
        shown = samples.take()
        if shown is None:
            return
        sample, picture, content_type = shown
        files = {
            "sample": (None, json.dumps(sample.to_json()), "application/json"),
            "picture": ("picture", picture, content_type),
        }
        owner = {key: self._owner[key] for key in ("namespace", "ownerName", "uid")}
        if not self._post("samples", files=files, params=owner):
            samples.put_back(shown)

    def _post(self, what: str, **content: Any) -> bool:
        """Has the agent heard it? What it refuses it has heard."""
        try:
            response = self._client.post(f"{self._url}/{what}", **content)
        except httpx.HTTPError as error:
            if not self._is_away:
                logger.warning("The agent at %s is away: %s", self.work.agent_url, error)
            self._is_away = True
            return False
        if self._is_away:
            logger.info("The agent at %s is back", self.work.agent_url)
        self._is_away = False
        if response.is_error:
            logger.warning("The agent has refused %s: %s %s", what, response.status_code, response.text[:200])
        return response.status_code < 500


def _lasting(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what changes all the time."""
    info = said.get("taskInfo") or {}
    return {**said, "taskInfo": {key: value for key, value in info.items() if key not in TIMES}}
