"""A client of the API of nodes for programs and the command line. Prints nothing. Its errors: see Remote."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from app.kit.cli.api_client import ApiClient

NODES = "/neptune/nodes"
Record = dict[str, Any]


class NodesClient(ApiClient):
    """The API of nodes."""

    def nodes(self) -> list[Record]:
        nodes: list[Record] = self._json("GET", NODES)["nodes"]
        return nodes

    def register(self, name: str, side: str, *, replace: bool = False) -> Record:
        """The registered node with its token, which is shown only now."""
        return self._json("POST", NODES, json={"name": name, "side": side, "replace": replace})

    def access(self, name: str) -> Record:
        """{allowed, videos, sources}, see schemas.Access."""
        return self._json("GET", _access(name))

    def put_access(self, name: str, access: Record) -> Record:
        return self._json("PUT", _access(name), json=access)

    def remove(self, name: str) -> None:
        with self._answer("DELETE", f"{NODES}/{quote(name, safe='')}"):
            pass


def _access(name: str) -> str:
    return f"{NODES}/{quote(name, safe='')}/access"
