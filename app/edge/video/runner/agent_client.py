"""The connection from a runner to the agent of its node."""

from __future__ import annotations

import json
from urllib.parse import quote

from app.edge.agent_connection import AgentConnection
from app.video.model.report import PlanRequest

TIMEOUT_S = 3.0


class AgentClient:
    """Sends to the agent of this node."""

    def __init__(self, agent_url: str, uid: str) -> None:
        self._has_agent, self._uid = bool(agent_url), uid
        self._agent = AgentConnection(agent_url, timeout_s=TIMEOUT_S)

    def send(self, path: str, body: bytes, content_type: str = "application/json") -> bool:
        """Sends a report. Returns whether it has arrived; one that the agent refuses has arrived."""
        return not self._has_agent or self._agent.post(path, content=body, headers={"content-type": content_type})

    def ask(self, request: PlanRequest) -> bool:
        return self.send("/node/get_plan", json.dumps(request).encode())

    def show(self, jpeg: bytes) -> None:
        self.send(f"/video/{quote(self._uid, safe='')}/picture", jpeg, "image/jpeg")

    def close(self) -> None:
        self._agent.close()
