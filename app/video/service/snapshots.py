"""Stored pictures of jobs: JPEG in the object store."""

from __future__ import annotations

from app.kit.objects import ObjectStore
from app.kit.objects.content import find_content


class Snapshots:
    """The newest picture of each job."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put(self, uid: str, jpeg: bytes) -> None:
        self._objects.put(_build_key(uid), [jpeg], content_type="image/jpeg")

    def get(self, uid: str) -> bytes | None:
        return find_content(self._objects, _build_key(uid))

    def forget(self, uid: str) -> None:
        """With the pictures of its events."""
        self._objects.delete_prefix(f"video/{uid}/")


def _build_key(uid: str) -> str:
    return f"video/{uid}/snapshot.jpg"
