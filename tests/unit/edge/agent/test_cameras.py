"""What an agent may open: what it was started with, and of what the web adds, what its --source offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.edge.agent.cameras import Cameras
from app.inference.sources.allow_list import SourceNotOffered
from app.nodes.cameras import CameraList


def added(*sources: str) -> dict[str, object]:
    cameras = CameraList()
    for source in sources:
        cameras, _ = cameras.with_new("added", source)
    return cameras.to_json()


def test_added_cameras_come_beside_the_given_ones_and_go_with_the_next_order() -> None:
    cameras = Cameras([("hall", "/elsewhere/hall.mp4")], ["rtsp://10.0.0.*/*"])
    cameras.replace_added(added("rtsp://10.0.0.7/1", "rtsp://10.0.0.8/1"))
    assert [(one.id, one.source) for one in cameras.by_id().values()] == [
        ("0", "/elsewhere/hall.mp4"),
        ("1000", "rtsp://10.0.0.7/1"),
        ("1001", "rtsp://10.0.0.8/1"),
    ]
    assert [cameras.source_of(one) for one in cameras.by_id().values()][1:] == [
        "rtsp://10.0.0.7/1",
        "rtsp://10.0.0.8/1",
    ]
    cameras.replace_added({})
    assert list(cameras.by_id()) == ["0"]


def test_what_the_node_does_not_offer_is_not_opened_whoever_adds_it(tmp_path: Path) -> None:
    (tmp_path / "offered").mkdir()
    (tmp_path / "private.mp4").touch()
    (tmp_path / "offered" / "link.mp4").symlink_to(tmp_path / "private.mp4")
    cameras = Cameras([], [str(tmp_path / "offered"), "rtsp://10.0.0.*/*"])
    sources = (
        str(tmp_path / "private.mp4"),
        str(tmp_path / "offered" / "link.mp4"),
        str(tmp_path / "offered" / ".." / "private.mp4"),
        "rtsp://10.0.1.7/1",
        "http://10.0.0.7/1",
        "file:///etc/passwd",
    )
    cameras.replace_added(added(*sources))
    assert len(cameras.by_id()) == len(sources)
    for camera in cameras.by_id().values():
        with pytest.raises(SourceNotOffered):
            cameras.source_of(camera)
    assert Cameras([("private", sources[0])]).source_of(Cameras([("private", sources[0])]).by_id()["0"]) == sources[0]
