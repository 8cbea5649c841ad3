"""The connection from a program of a node to the node's agent."""

from __future__ import annotations

import logging
from typing import Any

import httpx

logger = logging.getLogger(__name__)


class AgentConnection:
    """Reports to the agent. It is said once that the agent is away, and once that it is back."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """
        Args:
            url: of the agent.
            timeout_s: seconds of a report.
        """
        self._url = url.rstrip("/")
        self._client = httpx.Client(timeout=timeout_s, trust_env=False)
        self._is_away = False

    def hurry(self, timeout_s: float) -> None:
        """Gives later reports this time, in seconds."""
        self._client.timeout = httpx.Timeout(timeout_s)

    def post(self, path: str, **content: Any) -> bool:
        """Sends a report.

        Args:
            content: as of httpx.Client.post.

        Returns:
            Whether it has arrived; one that the agent refuses has arrived.
        """
        try:
            response = self._client.post(f"{self._url}{path}", **content)
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

    def close(self) -> None:
        self._client.close()
