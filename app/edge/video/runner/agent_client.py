"""The connection from a runner to the agent of its node."""

from __future__ import annotations

import json
import logging
from urllib.parse import quote

import httpx

from app.video.model.report import PlanRequest

TIMEOUT_S = 3.0
logger = logging.getLogger(__name__)


class AgentClient:
    """Sends to the agent of this node."""

    def __init__(self, agent_url: str, uid: str) -> None:
        self._url = agent_url.rstrip("/")
        self._uid = uid
        self._client = httpx.Client(timeout=TIMEOUT_S, trust_env=False)
        self._is_away = False

    def send(self, path: str, body: bytes, content_type: str = "application/json") -> bool:
        """Sends a report. Returns whether it has arrived; one that the agent refuses has arrived."""
        if not self._url:
            return True
        try:
            response = self._client.post(f"{self._url}{path}", content=body, headers={"content-type": content_type})
        except httpx.HTTPError as error:
            if not self._is_away:
                logger.warning("The agent at %s is away: %s", self._url, error)
            self._is_away = True
            return False
        if self._is_away:
            logger.info("The agent at %s is back", self._url)
        self._is_away = False
        if response.is_error:
            logger.warning("The agent has refused %s: %s %s", path, response.status_code, response.text[:200])
        return response.status_code < 500

    def ask(self, request: PlanRequest) -> bool:
        return self.send("/node/get_plan", json.dumps(request).encode())

    def show(self, jpeg: bytes) -> None:
        self.send(f"/video/{quote(self._uid, safe='')}/picture", jpeg, "image/jpeg")

    def close(self) -> None:
        self._client.close()
