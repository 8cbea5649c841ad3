"""Video files that end before their own headers say."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from app.inference.errors import SourceUnusable
from app.inference.sources import open_source
from app.inference.sources.containers import is_cut, read_declared_bytes
from tests.unit.inference.sources.test_sources import film

FORMS = [("a.mp4", "mpeg4"), ("a.mov", "mpeg4"), ("a.mkv", "libx264"), ("a.webm", "libvpx"), ("a.avi", "mpeg4")]
COUNT = 120


def cut(path: Path) -> Path:
    """Four tenths of it are lost."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    return path


def begun(path: Path) -> Path:
    """The same film with its index first, as it is made to be sent."""
    with av.open(str(path)) as given, av.open(str(path) + ".new", "w", "mp4", {"movflags": "faststart"}) as container:
        stream = container.add_stream_from_template(given.streams.video[0])
        for packet in given.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                container.mux(packet)
    return Path(str(path) + ".new").rename(path)


@pytest.mark.parametrize(("name", "codec"), FORMS)
def test_a_whole_file_is_as_long_as_it_says(name: str, codec: str, tmp_path: Path) -> None:
    path = film(tmp_path / name, codec=codec)
    assert read_declared_bytes(path) == path.stat().st_size
    assert not is_cut(path)
    assert is_cut(cut(path))


def test_what_follows_the_last_box_is_passed_over(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4")
    path.write_bytes(path.read_bytes() + b"\xff\x00\x00\x00\xff\x01\x02\x03 and so on")
    assert not is_cut(path)
    assert len(list(open_source(str(path)))) == 24


@pytest.mark.parametrize("content", [b"", b"\x1a\x45\xdf\xa3", b"RIFF", b"\x00\x00\x00\x18ftyp", b"no video at all"])
def test_of_a_file_that_does_not_say_nothing_is_known(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(content)
    assert read_declared_bytes(path) in (0, 8, 24)
    assert read_declared_bytes(tmp_path / "nothing") == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "mpeg4"), ("a.mkv", "libx264"), ("a.avi", "mpeg4")])
def test_the_end_of_a_cut_video_says_how_much_of_it_is_there(name: str, codec: str, tmp_path: Path) -> None:
    path = film(tmp_path / name, count=COUNT, codec=codec)
    source = open_source(str(cut(begun(path) if name.endswith("mp4") else path)))
    seen = len(list(source))
    assert 10 < seen < COUNT
    assert source.why_damaged == f"{name} (its end): {seen} of {COUNT} frames are there"


def test_a_cut_video_that_cannot_be_opened_says_that_it_is_cut(tmp_path: Path) -> None:
    path = cut(film(tmp_path / "a.mp4"))
    with pytest.raises(SourceUnusable, match=r"a\.mp4 .*; the file ends before its own headers say"):
        next(open_source(str(path)))
