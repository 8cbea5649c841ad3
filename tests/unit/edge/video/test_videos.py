"""What a node says of its videos before anybody looks at them."""

from __future__ import annotations

import sys
from pathlib import Path

import av
import numpy as np
import pytest

from app.edge.agent.cameras import Cameras
from app.edge.video.drivers import Videos
from app.kit.errors import BadInput
from app.nodes.cameras import CameraList
from tests.unit.inference.sources.test_containers import begun, cut
from tests.unit.inference.sources.test_orientation import taken
from tests.unit.inference.sources.test_sources import film


def sound(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def foreign(path: Path) -> Path:
    """A video in a form that nobody has a decoder for."""
    film(path, codec="libx264")
    path.write_bytes(path.read_bytes().replace(b"V_MPEG4/ISO/AVC", b"V_MPEG4/ISO/XXX"))
    return path


def told(source: object) -> dict[str, str]:
    return dict(Videos(Cameras([("hall", str(source))])).describe()["0"])


def test_of_a_good_video_its_size_as_it_is_shown_is_told(tmp_path: Path) -> None:
    assert told(film(tmp_path / "a.mp4")) == {"type": "hall", "name": "a.mp4", "size": "64x48", "fps": "12"}
    assert told(taken(tmp_path / "b.mp4", (0, 1 << 16, -1 << 16, 0)))["size"] == "64x96"
    assert told("rtsp://ann:secret@camera/1?token=t") == {"type": "hall", "name": "rtsp://camera/1", "live": "yes"}


def test_what_speaks_against_a_video_is_told_when_it_is_offered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "garbage.mp4").write_bytes(b"no video " * 100)
    problems = {name: told(tmp_path / name)["problem"] for name in ("empty.mp4", "garbage.mp4")} | {
        "sound.mp4": told(sound(tmp_path / "sound.mp4"))["problem"],
        "foreign.mkv": told(foreign(tmp_path / "foreign.mkv"))["problem"],
        "cut.mp4": told(cut(film(tmp_path / "cut.mp4", count=120)))["problem"],
        "cut.mkv": told(cut(film(tmp_path / "cut.mkv", count=120, codec="libx264")))["problem"],
    }
    assert problems == {
        "empty.mp4": "empty.mp4 cannot be opened as a video: it is empty",
        "garbage.mp4": "garbage.mp4 cannot be opened as a video: Invalid data found when processing input",
        "sound.mp4": "sound.mp4 has no picture in it, only sound",
        "foreign.mkv": "foreign.mkv is coded in a way that the FFmpeg of this node cannot decode",
        "cut.mp4": "cut.mp4 cannot be opened as a video: Invalid data found when processing input; the file ends "
        "before its own headers say",
        "cut.mkv": "cut.mkv is cut off: its end is missing",
    }
    assert all(f"Video 0: {problem}." in caplog.text for problem in problems.values())


def test_a_cut_video_whose_index_is_there_says_how_much_of_it_is(tmp_path: Path) -> None:
    path = cut(begun(film(tmp_path / "a.mp4", count=120)))
    count = sum(1 for _ in av.open(str(path)).decode(video=0))
    problem = told(path)["problem"]
    assert problem in {f"a.mp4 is cut off: {seen} of 120 frames are there" for seen in (count - 1, count)}


def test_a_file_is_looked_at_again_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.touch()
    videos = Videos(Cameras([("hall", str(path))]))
    assert "it is empty" in videos.describe()["0"]["problem"]
    film(path)
    assert "problem" not in videos.describe()["0"]
    path.unlink()
    assert videos.describe()["0"]["problem"] == "a.mp4 is not there any more", "and nothing of where it was"


@pytest.mark.parametrize("source", ["a.mp4", "rtsp://camera/1"])
def test_a_node_without_pyav_says_so_of_all_its_videos(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = film(tmp_path / "a.mp4")
    monkeypatch.setitem(sys.modules, "av", None)
    assert "this node has no PyAV to read it with" in told(path if source == "a.mp4" else source)["problem"]


def test_an_added_camera_is_told_with_what_speaks_against_it_and_no_more(tmp_path: Path) -> None:
    film(tmp_path / "a.mp4")
    cameras = Cameras(sources=[str(tmp_path)])
    videos = Videos(cameras)
    added, _ = CameraList().with_new("hall", str(tmp_path / "a.mp4"))
    added, _ = added.with_new("hall", str(tmp_path / "none.mp4"))
    added, _ = added.with_new("yard", "rtsp://ann:secret@camera/1")
    cameras.replace_added(added.to_json())
    facts = videos.describe()
    assert facts["1000"] == {"type": "hall", "name": "a.mp4", "size": "64x48", "fps": "12"}
    assert facts["1001"]["problem"] == "none.mp4 is not there"
    assert facts["1002"]["name"] == "rtsp://camera/1" and "does not offer this source" in facts["1002"]["problem"]
    assert facts["1002"]["refused"] == "yes" and "refused" not in facts["1001"]
    changed, _ = added.changed("1000", type=None, source=str(tmp_path / "none.mp4"))
    cameras.replace_added(changed.to_json())
    assert videos.describe()["1000"]["problem"] == "none.mp4 is not there", (
        "what was known of the former source is gone"
    )


def test_a_video_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no video"):
        Videos(Cameras([("hall", str(tmp_path / "none.mp4"))]))
    assert Videos(Cameras()).describe() == {}
