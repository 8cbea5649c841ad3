"""The whole content of small objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kit.objects import ObjectMissing
from app.kit.objects.content import find_content, put_json, read_content, read_json
from app.kit.objects.filesystem import FilesystemStore


@pytest.fixture
def objects(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


def test_a_document_is_stored_as_json_and_read_again(objects: FilesystemStore) -> None:
    put_json(objects, "a/b.json", {"name": "Größe", "sizes": [1, None]})

    assert read_json(objects, "a/b.json") == {"name": "Größe", "sizes": [1, None]}
    assert objects.info("a/b.json").content_type == "application/json"


def test_content_is_read_in_one_piece_however_it_was_sent(objects: FilesystemStore) -> None:
    objects.put("a/b", [b"one ", b"two"])

    assert read_content(objects, "a/b") == find_content(objects, "a/b") == b"one two"


def test_a_missing_object_is_an_error_or_none(objects: FilesystemStore) -> None:
    assert find_content(objects, "a/b") is None
    for read in (read_content, read_json):
        with pytest.raises(ObjectMissing):
            read(objects, "a/b")
