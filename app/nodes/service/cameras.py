"""The operations on the cameras that are added to nodes: each change is sent to the node as an order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.kit.sql import Database
from app.nodes import store
from app.nodes.cameras import KEY, Camera, CameraInUse, CameraList
from app.nodes.model import Operation, Order
from app.nodes.service import orders
from app.nodes.service.contract import Note, Notify
from app.nodes.service.node_access import require_node


@dataclass(eq=False)
class NodeCameras:
    """The cameras that administrators added to nodes while their agents ran.

    Args:
        database: where the orders are stored.
        notify: called after a node's orders have changed.
        note: writes an entry of the audit log in the transaction: by whom, what, to what, details.
    """

    database: Database
    notify: Notify
    note: Note

    def all(self, node: str) -> CameraList:
        """Returns all cameras that were added to a node."""
        with self.database.read() as conn:
            require_node(store.get_node(conn, node), node)
            return _list(store.get_order(conn, node, KEY))

    def add(self, node: str, type: str, source: str, *, by: str) -> Camera:
        """Adds a camera. The node's next report says whether it may open the camera, and whether it gives pictures.

        Args:
            node: the name of the node.
            type: the camera's subject, for people.
            source: an absolute path on the node, or a URL.
            by: the administrator.

        Raises:
            NodeNotFound: There is no such node.
            BadCamera: The type or the source is invalid, or the node has as many cameras as it may.
        """
        return self._record_change(node, lambda cameras: cameras.with_new(type, source), "node.camera.add", by)

    def change(
        self, node: str, camera_id: str, *, type: str | None = None, source: str | None = None, by: str
    ) -> Camera:
        """Changes the type or source of a camera. Jobs that read it continue with the new source.

        Args:
            node: the name of the node.
            camera_id: one of its added cameras.
            type: the new type; None: unchanged.
            source: the new source; None: unchanged.
            by: the administrator.

        Raises:
            NodeNotFound: There is no such node.
            CameraNotFound: The node has no such camera.
            BadCamera: The type or the source is invalid.
        """
        return self._record_change(
            node, lambda cameras: cameras.changed(camera_id, type=type, source=source), "node.camera.change", by
        )

    def remove(self, node: str, camera_id: str, *, by: str) -> None:
        """Removes a camera.

        Raises:
            NodeNotFound: There is no such node.
            CameraNotFound: The node has no such camera.
            CameraInUse: A job reads it.
        """

        def removal(cameras: CameraList) -> tuple[CameraList, Camera]:
            return cameras.without(camera_id), cameras.get(camera_id)

        self._record_change(node, removal, "node.camera.remove", by)

    def _record_change(
        self, node: str, change: Callable[[CameraList], tuple[CameraList, Camera]], action: str, by: str
    ) -> Camera:
        with self.database.write() as conn:
            require_node(store.lock_node(conn, node), node)
            cameras, camera = change(_list(store.get_order(conn, node, KEY, is_locked=True)))
            if camera not in cameras.cameras:
                _require_unused(conn, node, camera)
            orders.put(conn, Order(0, node, KEY, "", "cameras", Operation.INSERT, 0, cameras.to_json()))
            self.note(conn, by, action, f"node:{node}", {"camera": camera.id, "type": camera.type})
        self.notify(node)
        return camera


def _list(order: Order | None) -> CameraList:
    return CameraList.from_json(order.content if order else {})


def _require_unused(conn: Connection, node: str, camera: Camera) -> None:
    contents: list[Any] = list(store.contents_on(conn, node))
    if any(content.get("video_id") == camera.id for content in contents):
        raise CameraInUse(
            f"A video job reads the camera {camera.id} ({camera.type}).", hint="End the job, and remove it then."
        )
