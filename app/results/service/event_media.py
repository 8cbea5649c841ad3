"""Stored pictures and clips of events: in the object store, below the folder of their producer, with which they go."""

from __future__ import annotations

from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.content import find_content

PICTURE, CLIP = "jpg", "clip"


def media_key(kind: str, uid: str, event_id: int, form: str = PICTURE) -> str:
    """Names the picture or the clip of an event.

    Args:
        kind: of the producer.
        uid: of the producer.
        event_id: of the event.
        form: PICTURE (a JPEG) or CLIP (a video).
    """
    return f"{kind}/{uid}/events/{event_id}.{form}"


class EventMedia:
    """A picture of each event for which one arrived in time, and a clip of each whose producer is recorded."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put(self, key: str, content: bytes) -> None:
        """Stores a picture or a clip; its first bytes say which."""
        self._objects.put(key, [content], content_type=media_type_of(content))

    def get(self, key: str) -> bytes | None:
        return find_content(self._objects, key)

    def has(self, key: str) -> bool:
        try:
            self._objects.info(key)
        except ObjectMissing:
            return False
        return True

    def forget(self, kind: str, uid: str, event_id: int) -> None:
        """Deletes the picture and the clip of an event."""
        for form in (PICTURE, CLIP):
            self._objects.delete(media_key(kind, uid, event_id, form))


def media_type_of(content: bytes | bytearray) -> str:
    """Of a JPEG, an MP4 or a WebM."""
    if content.startswith(b"\xff\xd8"):
        return "image/jpeg"
    return "video/mp4" if content[4:8] == b"ftyp" else "video/webm"
