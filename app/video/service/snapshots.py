"""Stored pictures of jobs: JPEG in the object store."""

from __future__ import annotations

from app.kit.objects import ObjectMissing, ObjectStore


class Snapshots:
    """The newest picture of each job, and one of each event for which one arrived in time."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put(self, uid: str, jpeg: bytes) -> None:
        self._objects.put(_key(uid), [jpeg], content_type="image/jpeg")

    def get(self, uid: str) -> bytes | None:
        return self._read(_key(uid))

    def put_of_event(self, uid: str, event_id: int, jpeg: bytes) -> None:
        self._objects.put(_key_of_event(uid, event_id), [jpeg], content_type="image/jpeg")

    def get_of_event(self, uid: str, event_id: int) -> bytes | None:
        return self._read(_key_of_event(uid, event_id))

    def forget_of_event(self, uid: str, event_id: int) -> None:
        self._objects.delete(_key_of_event(uid, event_id))

    def forget(self, uid: str) -> None:
        """With those of its events."""
        self._objects.delete_prefix(f"video/{uid}/")

    def _read(self, key: str) -> bytes | None:
        try:
            return b"".join(self._objects.read(key))
        except ObjectMissing:
            return None


def _key(uid: str) -> str:
    return f"video/{uid}/snapshot.jpg"


def _key_of_event(uid: str, event_id: int) -> str:
    return f"video/{uid}/events/{event_id}.jpg"
