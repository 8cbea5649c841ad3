"""The list of a node's added cameras, as its order carries it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kit.errors import BadInput
from app.nodes.cameras import FIRST_ID, MOST, BadCamera, Camera, CameraList, CameraNotFound, video_of

RTSP = "rtsp://ann:secret@10.0.0.7/stream"


def test_ids_begin_above_those_of_the_agent_and_none_is_given_twice() -> None:
    cameras, first = CameraList().with_new("entrance", RTSP)
    cameras, second = cameras.with_new(" yard ", "/videos/yard.mp4")
    assert (first, second) == (Camera("1000", "entrance", RTSP), Camera("1001", "yard", "/videos/yard.mp4"))
    cameras, third = cameras.without("1001").with_new("yard", "/videos/yard.mp4")
    assert third.id == "1002"
    assert CameraList.from_json(cameras.to_json()) == cameras
    assert CameraList.from_json({}) == CameraList(next_id=FIRST_ID)


def test_a_change_leaves_what_is_not_named() -> None:
    cameras, _ = CameraList().with_new("entrance", RTSP)
    cameras, changed = cameras.changed("1000", type="gate", source=None)
    assert changed == Camera("1000", "gate", RTSP)
    _, changed = cameras.changed("1000", type=None, source="/videos/gate.mp4")
    assert changed == Camera("1000", "gate", "/videos/gate.mp4")


@pytest.mark.parametrize("camera_id", ["0", "1001", "x" * 100])
def test_only_an_added_one_can_be_changed(camera_id: str) -> None:
    cameras, _ = CameraList().with_new("entrance", RTSP)
    for change in (cameras.get, cameras.without, lambda one: cameras.changed(one, type="gate", source=None)):
        with pytest.raises(CameraNotFound):
            change(camera_id)


@pytest.mark.parametrize("source", ["", "videos/yard.mp4", "rtsp://", "rtsp://10.0.0.7/a b", "/a\nb", "/" + "a" * 2000])
def test_what_is_no_url_and_no_absolute_path_is_no_camera(source: str) -> None:
    with pytest.raises(BadCamera, match="no address"):
        CameraList().with_new("entrance", source)


@pytest.mark.parametrize("name", ["", " ", "a\tb", "a" * 65])
def test_a_camera_has_a_name_that_can_be_shown(name: str) -> None:
    with pytest.raises(BadCamera, match="no name"):
        CameraList().with_new(name, RTSP)


def test_there_is_an_end_to_them() -> None:
    full = CameraList(tuple(Camera(str(number), "x", "/x") for number in range(MOST)))
    with pytest.raises(BadCamera, match="at most 500"):
        full.with_new("entrance", RTSP)


@pytest.mark.parametrize(
    ("text", "kind", "source"),
    [
        ("traffic flow=/v/input.mov", "traffic flow", "/v/input.mov"),
        ("/v/people indoor.mp4", "people indoor", "/v/people indoor.mp4"),
        ("/v/a=b/c.gif", "c", "/v/a=b/c.gif"),
        ("=/v/c.gif", "c", "/v/c.gif"),
        ("door=rtsp://u:p@cam:554/main?a=b", "door", "rtsp://u:p@cam:554/main?a=b"),
        ("rtsp://u:p@cam/main.sdp?a=b", "main", "rtsp://u:p@cam/main.sdp?a=b"),
        ("rtsp://cam", "rtsp", "rtsp://cam"),
    ],
)
def test_a_video_is_named_with_its_type_or_without(text: str, kind: str, source: str) -> None:
    assert video_of(text) == (kind, source)


def test_a_video_that_is_named_from_here_is_found_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert video_of("input.mov") == ("input", str(tmp_path / "input.mov"))


@pytest.mark.parametrize("text", ["", "a=", "a= ", f"{'x' * 65}=/v", "a\nb=v.mp4"])
def test_what_names_no_video_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="video"):
        video_of(text)
