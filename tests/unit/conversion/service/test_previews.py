"""Previews of an upload, of which the child that opens the file may report anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from app.conversion.service.previews import Previews
from app.conversion.service.submissions import StoredInput
from app.kit.objects.filesystem import FilesystemStore
from app.kit.sandbox.runner import Sandbox
from app.settings import Settings

KEY = "uploads/0b0c0d0e-0000-4000-8000-000000000000/quant.zip"
REPORT = {
    "count": 1,
    "pictures": [],
    "arrays": [],
    "unreadable": [],
    "kinds": {},
    "ignored": 0,
    "problem": None,
    "size_bytes": 1,
    "formats": {},
    "looked_at": 1,
}


class ReportingSandbox:
    """Stands in for the sandbox: its child writes one thumbnail and reports another name."""

    def __init__(self, reported: str) -> None:
        self.reported = reported

    def run(self, target: str, request: dict[str, Any], *, work_dir: Path, limits: object) -> Any:
        (work_dir / "thumbs").mkdir()
        (work_dir / "thumbs" / "0.jpg").write_bytes(b"jpeg")
        (work_dir / "secret.jpg").write_bytes(b"beside")
        result = {**REPORT, "thumbnails": [{"file": self.reported, "name": "a.png"}]}
        return type("Finished", (), {"result": result})()


def previews(folder: Path, reported: str) -> Previews:
    objects = FilesystemStore(folder / "objects")
    objects.put(KEY, [b"zip"], content_type="application/zip")
    sandbox = cast("Sandbox", ReportingSandbox(reported))

    def find_input(key: str, owner: str) -> StoredInput:
        return StoredInput("", objects.info(key).size_bytes, "")

    return Previews(Settings(data_dir=folder), objects, sandbox, find_input)


def test_thumbnails_are_stored_beside_the_pictures(tmp_path: Path) -> None:
    made = previews(tmp_path, "0.jpg")
    assert made.pictures(KEY, "alice").failure is None
    assert made.thumbnail(KEY, "0.jpg", "alice") == b"jpeg"


@pytest.mark.parametrize("reported", ["../secret.jpg", "../../0.jpg", "/etc/hostname", "0.jpg/..", "", "1.jpg"])
def test_a_name_that_is_no_thumbnail_is_refused_in_the_words_of_the_user(tmp_path: Path, reported: str) -> None:
    made = previews(tmp_path, reported)
    failure = made.pictures(KEY, "alice").failure
    assert failure is not None and failure.detail == {"cause": "STAGE_CRASHED"}
    assert failure.message == "The file could not be looked at: its check ended with an invalid result."
    assert [each.key for each in made.objects.list("uploads/")] == [KEY]
