"""A client of the API of nodes for programs and the command line. Prints nothing. Its errors: see ApiClient."""

from __future__ import annotations

from urllib.parse import quote

from app.kit.cli.api_client import ApiClient
from app.kit.text.json_values import JsonObject

NODES = "/neptune/nodes"


class NodesClient(ApiClient):
    """The API of nodes."""

    def nodes(self, selector: str = "") -> list[JsonObject]:
        """Returns the nodes. `selector`: only those with these labels, such as site=berlin."""
        nodes: list[JsonObject] = self._json("GET", NODES, params={"selector": selector} if selector else {})["nodes"]
        return nodes

    def node(self, name: str) -> JsonObject:
        return self._json("GET", f"{NODES}/{quote(name, safe='')}")

    def put_labels(self, name: str, labels: JsonObject) -> JsonObject:
        """Replaces all labels. Returns the stored ones."""
        stored: JsonObject = self._json("PUT", f"{NODES}/{quote(name, safe='')}/labels", json={"labels": labels})[
            "labels"
        ]
        return stored

    def register(self, name: str, side: str, *, replace: bool = False) -> JsonObject:
        """Registers a node. Returns it with its token, which is shown only now."""
        return self._json("POST", NODES, json={"name": name, "side": side, "replace": replace})

    def access(self, name: str) -> JsonObject:
        """Returns {allowed, videos, sources}; see schemas.Access."""
        return self._json("GET", _build_access_path(name))

    def put_access(self, name: str, access: JsonObject) -> JsonObject:
        return self._json("PUT", _build_access_path(name), json=access)

    def cameras(self, name: str) -> list[JsonObject]:
        """Returns [{id, type, source}] of the cameras that were added to the node."""
        cameras: list[JsonObject] = self._json("GET", _build_cameras_path(name))["cameras"]
        return cameras

    def discovered_cameras(self, name: str) -> list[JsonObject]:
        """Returns the cameras that answer on the node's network: {address, service, name, hardware}."""
        cameras: list[JsonObject] = self._json("GET", _build_cameras_path(name))["discovered"]
        return cameras

    def add_camera(self, name: str, type: str, source: str) -> JsonObject:
        return self._json("POST", _build_cameras_path(name), json={"type": type, "source": source})

    def change_camera(self, name: str, camera_id: str, *, type: str | None, source: str | None) -> JsonObject:
        """Returns the changed camera.

        Args:
            name: the name of the node.
            camera_id: one of the cameras that were added to the node.
            type: its subject; None: unchanged.
            source: a URL or a path on the node; None: unchanged.
        """
        return self._json("PATCH", _build_cameras_path(name, camera_id), json={"type": type, "source": source})

    def remove_camera(self, name: str, camera_id: str) -> None:
        self._delete(_build_cameras_path(name, camera_id))

    def remove(self, name: str) -> None:
        self._delete(f"{NODES}/{quote(name, safe='')}")


def _build_cameras_path(name: str, camera_id: str = "") -> str:
    return f"{NODES}/{quote(name, safe='')}/cameras" + (f"/{quote(camera_id, safe='')}" if camera_id else "")


def _build_access_path(name: str) -> str:
    return f"{NODES}/{quote(name, safe='')}/access"
