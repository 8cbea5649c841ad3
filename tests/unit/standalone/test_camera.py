"""The camera of a demonstration, before anything is started for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.inference.errors import SourceUnusable
from app.kit.errors import BadInput
from app.standalone.camera import require_camera
from tests.harness.camera import camera


def test_a_camera_that_is_not_there_is_said_with_what_can_be_done(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no camera") as caught:
        require_camera(str(tmp_path / "video0"))
    assert "--device" in caught.value.hint


def test_a_device_that_is_no_camera_and_a_camera_without_a_picture_are_refused() -> None:
    with pytest.raises(SourceUnusable, match="no camera"):
        require_camera("/dev/null")
    with camera(count=0) as empty, pytest.raises(SourceUnusable):
        require_camera(empty.url)


def test_a_camera_that_gives_a_picture_is_taken() -> None:
    with camera() as working:
        require_camera(working.url)
