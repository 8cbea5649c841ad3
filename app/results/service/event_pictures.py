"""Stored pictures of events: JPEG in the object store, below the folder of their producer, with which they go."""

from __future__ import annotations

from app.kit.objects import ObjectMissing, ObjectStore


class EventPictures:
    """One of each event for which one arrived in time."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put(self, kind: str, uid: str, event_id: int, jpeg: bytes) -> None:
        """Keeps a picture.

        Args:
            kind: of the producer.
            uid: of the producer.
        """
        self._objects.put(_key(kind, uid, event_id), [jpeg], content_type="image/jpeg")

    def get(self, kind: str, uid: str, event_id: int) -> bytes | None:
        try:
            return b"".join(self._objects.read(_key(kind, uid, event_id)))
        except ObjectMissing:
            return None

    def forget(self, kind: str, uid: str, event_id: int) -> None:
        self._objects.delete(_key(kind, uid, event_id))


def _key(kind: str, uid: str, event_id: int) -> str:
    return f"{kind}/{uid}/events/{event_id}.jpg"
