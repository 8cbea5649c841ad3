"""Whether a worker answers at its own server, encrypted or not."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from app.edge.agent.driver import NodeTls
from app.kit.network.tls import tls_name

ASK_TIMEOUT_S = 2.0
OK = 200


class HealthProbe:
    """Asks the workers of this node, for the event loop that it is used in.

    Args:
        node: the name of this node.
        tls: of this node, as it is now.
    """

    def __init__(self, node: str, tls: Callable[[], NodeTls]) -> None:
        self._tls = tls
        self._extensions = {"sni_hostname": tls_name(node)}
        self._plain = httpx.AsyncClient(trust_env=False)
        self._encrypted: httpx.AsyncClient | None = None

    async def is_healthy(self, url: str) -> bool:
        """Whether the URL answers 200."""
        client = self._client(url)
        try:
            return (
                client is not None
                and (await client.get(url, timeout=ASK_TIMEOUT_S, extensions=self._extensions)).status_code == OK
            )
        except (httpx.HTTPError, httpx.InvalidURL):
            return False

    async def close(self) -> None:
        await self._plain.aclose()
        if self._encrypted is not None:
            await self._encrypted.aclose()

    def _client(self, url: str) -> httpx.AsyncClient | None:
        """None: this node has no certificate to call with."""
        if not url.startswith("https:"):
            return self._plain
        credentials = self._tls().credentials
        if self._encrypted is None and credentials is not None:
            self._encrypted = httpx.AsyncClient(trust_env=False, verify=credentials.client)
        return self._encrypted
