"""The whole content of small objects."""

from __future__ import annotations

import json
from typing import Any

from app.kit.objects.base import ObjectMissing, ObjectStore, Stored


def read_content(objects: ObjectStore, key: str) -> bytes:
    """Returns the bytes of an object.

    Raises:
        ObjectMissing: There is none with this key.
    """
    return b"".join(objects.read(key))


def find_content(objects: ObjectStore, key: str) -> bytes | None:
    """Returns the bytes of an object; None if there is none with this key."""
    try:
        return read_content(objects, key)
    except ObjectMissing:
        return None


def read_json(objects: ObjectStore, key: str) -> Any:
    """Returns the value of a JSON document.

    Raises:
        ObjectMissing: There is no object with this key.
        ValueError: It is no JSON.
    """
    return json.loads(read_content(objects, key))


def put_json(objects: ObjectStore, key: str, value: Any) -> Stored:
    """Stores a value as a JSON document, replacing an existing object."""
    return objects.put(key, [json.dumps(value).encode()], content_type="application/json")
