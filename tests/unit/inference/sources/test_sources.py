"""Sources of frames: what they give, at which pace, what they leave out, and what is refused."""

from __future__ import annotations

import os
import re
import socket
import ssl
import sys
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from app.inference.errors import DecoderMissing, SourceUnusable
from app.inference.picture_codec import encode
from app.inference.sources import Source, open_source
from app.inference.sources.frames import LazyFrame, Pace
from app.inference.sources.refusals import AUTHORITIES
from app.kit.signatures.certificates import CertificateAuthority, new_request
from tests.harness.camera import camera
from tests.harness.http_server import respond, served
from tests.harness.models.vision import plain
from tests.harness.pictures import pixels


class Clock:
    """Time that passes only while somebody sleeps, or works."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


def opened(path: object, clock: Clock | None = None, **options: Any) -> Source:
    clock = clock or Clock()
    return open_source(str(path), clock=clock, sleep=clock.sleep, **options)


def folder_of(folder: Path, count: int) -> Path:
    for index in range(count):
        (folder / f"{index}.png").write_bytes(encode(plain(index, 0, 0, 9, 9))[0])
    return folder


def film(path: Path, count: int = 24, rate: int = 12, codec: str = "mpeg4", size: tuple[int, int] = (64, 48)) -> Path:
    """Frames that become lighter one by one."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height = size
        stream.pix_fmt = {"gif": "rgb8", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
        for index in range(count):
            picture = np.full((size[1], size[0], 3), 20 + 8 * (index % 24), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
    return path


def test_a_folder_gives_its_pictures_by_name_and_nothing_else(tmp_path: Path) -> None:
    folder_of(tmp_path, 3)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "sub.png").mkdir()
    (tmp_path / "1b.JPG").write_bytes(encode(plain(0, 0, 0))[0])
    frames = list(opened(tmp_path))
    assert [frame.origin for frame in frames] == ["0.png", "1.png", "1b.JPG", "2.png"]
    assert [frame.index for frame in frames] == [0, 1, 2, 3]
    assert frames[3].picture[0, 0, 0] == 2
    assert frames[0].truth is None


def test_one_picture_is_a_source_of_one_frame(tmp_path: Path) -> None:
    (frame,) = opened(folder_of(tmp_path, 2) / "1.png")
    assert (frame.origin, frame.picture[0, 0, 0]) == ("1.png", 1)


def test_damaged_pictures_are_left_out_counted_and_told(tmp_path: Path) -> None:
    folder_of(tmp_path, 3)
    (tmp_path / "1.png").write_bytes((tmp_path / "1.png").read_bytes()[:45])
    source = opened(tmp_path)
    assert [(frame.index, frame.origin) for frame in source] == [(0, "0.png"), (1, "2.png")]
    assert source.damaged == 1
    assert source.why_damaged.startswith("1.png: these ")


def test_a_picture_that_is_gone_when_its_turn_comes_is_left_out_and_told(tmp_path: Path) -> None:
    source = opened(folder_of(tmp_path, 3))
    next(source)
    (tmp_path / "1.png").unlink()
    assert [frame.origin for frame in source] == ["2.png"]
    assert (source.damaged, source.why_damaged) == (1, "1.png: the file cannot be read: No such file or directory")


def test_a_folder_that_is_gone_when_it_is_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    source = opened(folder_of(tmp_path / "sub", 1), loop=True)
    next(source)
    (tmp_path / "sub" / "0.png").unlink()
    with pytest.raises(SourceUnusable, match="sub gave not one frame"):
        next(source)


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(SourceUnusable, match=f"the folder {tmp_path.name} cannot be read: .*Permission denied"):
        next(opened(tmp_path))


def test_a_socket_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(SourceUnusable, match="socket is neither a file nor a folder"):
            opened(tmp_path / "socket")


def test_a_file_too_large_for_a_picture_is_not_read(tmp_path: Path) -> None:
    os.truncate(folder_of(tmp_path, 2) / "1.png", (64 << 20) + 1)
    source = opened(tmp_path)
    assert len(list(source)) == 1
    assert source.why_damaged == "1.png: the file is larger than 64 MB"


def test_what_is_repeated_is_counted_on(tmp_path: Path) -> None:
    source = opened(folder_of(tmp_path, 2), loop=True)
    assert [(frame.index, frame.origin) for frame, _ in zip(source, range(5), strict=False)] == [
        (0, "0.png"),
        (1, "1.png"),
        (2, "0.png"),
        (3, "1.png"),
        (4, "0.png"),
    ]


@pytest.mark.parametrize("loop", [False, True])
def test_a_source_without_one_good_frame_is_an_error_and_no_endless_loop(loop: bool, tmp_path: Path) -> None:
    with pytest.raises(SourceUnusable, match="gave not one frame: there is none"):
        list(opened(tmp_path, loop=loop))
    (tmp_path / "a.png").write_bytes(b"none")
    with pytest.raises(SourceUnusable, match=r"gave not one frame: a\.png: these 4 bytes"):
        list(opened(tmp_path, loop=loop))


@pytest.mark.parametrize("text", ["", "/no/such/film.mp4", "no-such-folder", "nothing.npz", "a\0b", "a" * 5000])
def test_a_source_that_is_not_there_is_named(text: str) -> None:
    with pytest.raises(SourceUnusable, match=re.escape(f"there is no source {text!r} on this node")):
        open_source(text)


@pytest.mark.parametrize(
    "text", ["concat://a|b", "file:///etc/passwd", "subfile://x", "ftp://host/x", "rtsp://host:x/"]
)
def test_addresses_that_lead_elsewhere_are_refused(text: str) -> None:
    with pytest.raises(SourceUnusable, match=r"are not read|no URL"):
        open_source(text)


def test_arrays_of_floats_and_of_bytes_give_the_same_pictures(tmp_path: Path) -> None:
    grey = np.stack([pixels(8, 8, 1), pixels(8, 8, 1)[::-1]])
    np.savez(tmp_path / "floats.npz", x=(grey / 255).astype(np.float32)[:, None], y=np.array([3, 9]))
    np.savez(tmp_path / "bytes.npz", x=grey[..., None])
    floats, whole = list(opened(tmp_path / "floats.npz")), list(opened(tmp_path / "bytes.npz"))
    assert [frame.truth for frame in floats] == [3, 9]
    assert [frame.origin for frame in whole] == ["bytes.npz#0", "bytes.npz#1"]
    for one, other, picture in zip(floats, whole, grey, strict=True):
        np.testing.assert_array_equal(one.picture, picture)
        np.testing.assert_array_equal(other.picture, picture)


def test_arrays_in_colour_keep_their_channels(tmp_path: Path) -> None:
    colour = pixels(6, 5)
    np.savez(tmp_path / "a.npz", x=(colour.transpose(2, 0, 1)[None] / 255))
    (frame,) = opened(tmp_path / "a.npz")
    np.testing.assert_array_equal(frame.picture, colour)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": np.zeros(3)}, "has no x"),
        ({"x": np.zeros((4, 39), np.float32)}, r"x of float32 \[4, 39\]"),
        ({"x": np.zeros((4, 2, 8, 8), np.float32)}, "which are no pictures"),
        ({"x": np.zeros((4, 8, 8, 3), np.int64)}, "which are no pictures"),
        ({"x": np.zeros((4, 1, 8, 8), np.float32), "y": np.zeros(3)}, "one class for each of 4"),
        ({"x": np.array([{"a": 1}], dtype=object)}, "cannot be read"),
    ],
)
def test_arrays_that_are_no_pictures_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(SourceUnusable, match=message):
        opened(tmp_path / "a.npz")


def test_a_damaged_npz_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "whole.npz", x=pixels(64, 64)[None])
    data = (tmp_path / "whole.npz").read_bytes()
    for damaged in (b"", b"not an npz", data[: len(data) // 2], data[:60] + bytes(40) + data[100:]):
        (tmp_path / "a.npz").write_bytes(damaged)
        with pytest.raises(SourceUnusable, match=r"a\.npz cannot be read as \.npz"):
            opened(tmp_path / "a.npz")


@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "mpeg4"), ("a.mkv", "libx264"), ("a.gif", "gif")])
def test_a_video_gives_all_its_frames_in_order(name: str, codec: str, tmp_path: Path) -> None:
    source = opened(film(tmp_path / name, codec=codec))
    frames = list(source)
    assert (len(frames), source.damaged) == (24, 0)
    assert frames[5].origin == f"{name}#5"
    assert frames[0].picture.shape == (48, 64, 3)
    means = [frame.picture.mean() for frame in frames]
    assert means == sorted(means)


def test_a_video_is_thinned_out_by_its_own_time_and_given_at_that_time(tmp_path: Path) -> None:
    clock = Clock()
    frames = list(opened(film(tmp_path / "a.mp4"), clock, fps=4))
    assert [frame.origin for frame in frames] == [f"a.mp4#{index}" for index in range(0, 24, 3)]
    assert clock.slept == [0.25] * 7


def test_a_video_that_has_fewer_frames_than_are_asked_for_is_given_as_it_is(tmp_path: Path) -> None:
    clock = Clock()
    assert len(list(opened(film(tmp_path / "a.mp4"), clock, fps=30))) == 24
    assert clock.now == pytest.approx(1000 + 23 / 12, abs=0.01)


def test_without_a_rate_nothing_waits(tmp_path: Path) -> None:
    clock = Clock()
    list(opened(film(tmp_path / "a.mp4"), clock))
    list(opened(folder_of(tmp_path, 3), clock))
    assert clock.slept == []


def test_pictures_are_given_evenly_and_work_in_between_counts(tmp_path: Path) -> None:
    clock = Clock()
    for _ in opened(folder_of(tmp_path, 4), clock, fps=2):
        clock.now += 0.2
    assert clock.slept == [0.3, 0.3, 0.3]


def test_who_was_held_up_is_not_hurried_after_the_pace(tmp_path: Path) -> None:
    clock = Clock()
    for frame in opened(folder_of(tmp_path, 6), clock, fps=2):
        if frame.index == 1:
            clock.now += 60
    assert clock.slept == [0.5, 0.5, 0.5, 0.5]


def test_a_video_that_is_cut_off_gives_what_there_is(tmp_path: Path) -> None:
    path = film(tmp_path / "a.avi", count=48)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    frames = list(opened(path))
    assert 10 < len(frames) < 48


def test_damaged_frames_of_a_video_are_left_out_counted_and_told(tmp_path: Path) -> None:
    path = film(tmp_path / "a.avi", count=48, codec="mjpeg")
    data = bytearray(path.read_bytes())
    starts = [at for at in range(len(data) - 3) if data[at : at + 3] == b"\xff\xd8\xff"]
    for damaged in (10, 20):
        begin, end = starts[damaged] + 2, starts[damaged + 1] - 8
        data[begin:end] = bytes(end - begin)
    path.write_bytes(data)
    source = opened(path)
    frames = list(source)
    assert len(frames) + source.damaged == 48
    assert source.damaged == 2
    assert source.why_damaged == "a.avi#20: Invalid data found when processing input"


@pytest.mark.parametrize("name", ["a.mp4", "a.gif", "no-suffix"])
@pytest.mark.parametrize("content", [b"", b"not a video " * 100])
def test_a_file_that_is_no_video_is_refused_by_its_name(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceUnusable, match=f"{name} cannot be opened as a video: "):
        next(opened(tmp_path / name))


def test_sound_alone_is_no_source(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.wav"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(SourceUnusable, match="only sound"):
        next(opened(tmp_path / "a.wav"))


def test_a_video_of_too_many_pixels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.inference.sources.video.MAX_PIXELS", 3000)
    with pytest.raises(SourceUnusable, match="64 x 48 pixels, more than"):
        next(opened(film(tmp_path / "a.mp4")))


def test_a_playlist_is_no_video(tmp_path: Path) -> None:
    (tmp_path / "list.m3u8").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n")
    with pytest.raises(SourceUnusable, match=r"list\.m3u8 cannot be opened as a video"):
        next(opened(tmp_path / "list.m3u8"))


def test_without_pyav_videos_are_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = film(tmp_path / "a.mp4")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(DecoderMissing, match=r"a\.mp4 is a video, and this node has no PyAV") as caught:
        opened(path)
    assert "modelmill[edge]" in caught.value.hint
    assert len(list(opened(folder_of(tmp_path, 2)))) == 2


def test_a_stream_is_read_from_its_address(tmp_path: Path) -> None:
    film(tmp_path / "a.mp4")
    with served(files_of(tmp_path)) as at:
        url = f"{at.replace('//', '//ann:secret@')}/a.mp4"
        assert [frame.index for frame in opened(url)] == list(range(24))
        source = opened(url.replace("a.mp4", "b.mp4"))
        with pytest.raises(SourceUnusable, match=r"http://127\.0\.0\.1:\d+/b\.mp4 cannot be opened") as caught:
            next(source)
        assert "secret" not in str(caught.value)


def files_of(folder: Path) -> Callable[[BaseHTTPRequestHandler, bytes], None]:
    """Answers with a file of this folder."""

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> None:
        path = folder / request.path.strip("/")
        respond(request, path.read_bytes()) if path.exists() else request.send_error(404)

    return answer


def test_the_certificate_of_a_camera_is_checked_where_authorities_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the name that is asked for. Without authorities it is not checked, since most cameras sign their own."""
    film(tmp_path / "a.mp4")
    authority, at, request = CertificateAuthority("theirs"), datetime.now(UTC), new_request()
    day = timedelta(days=1)
    pem = authority.issue(request.request, "localhost", serial=1, now=at - day, until=at + day)
    own, other = tmp_path / "own.pem", tmp_path / "other.pem"
    own.write_text(authority.certificate)
    other.write_text(CertificateAuthority("others").certificate)
    (tmp_path / "certificate.pem").write_text(pem)
    (tmp_path / "key.pem").write_text(request.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")

    with served(files_of(tmp_path), context=context) as url:

        def read(host: str, authorities: Path | None) -> int:
            monkeypatch.setenv(AUTHORITIES, str(authorities or ""))
            return len(list(opened(f"{url.replace('127.0.0.1', host)}/a.mp4")))

        assert read("localhost", None) == read("localhost", own) == 24
        for host, authorities in (("localhost", other), ("127.0.0.1", own)):
            with pytest.raises(SourceUnusable, match="certificate of no authority in MODELMILL_CAMERA_AUTHORITIES"):
                read(host, authorities)


def test_a_source_can_be_closed_in_the_middle(tmp_path: Path) -> None:
    source = opened(film(tmp_path / "a.mp4"))
    next(source)
    source.close()
    assert list(source) == []


def test_a_camera_slower_than_its_form_says_is_never_late() -> None:
    """MJPEG has no times; FFmpeg makes them up, of 25 frames a second."""

    clock, count = Clock(), 0
    with camera(30) as made, pytest.raises(SourceUnusable, match="broke off"):
        for _ in opened(made.url, clock, fps=5):
            count += 1
            clock.now += 1
    assert count >= 25


@pytest.mark.parametrize("loop", [False, True])
def test_a_camera_that_stops_is_gone_and_not_at_its_end(loop: bool) -> None:
    with camera() as made:
        source = opened(made.url, loop=loop)
        next(source)
        made.unplug()
        with pytest.raises(SourceUnusable, match=r"http://127\.0\.0\.1:\d+/video broke off"):
            list(source)


class Scripted:
    """A reel of one picture; cut off after it, or not."""

    fps = 0.0

    def __init__(self, *, is_endless: bool = False, is_cut: bool = False) -> None:
        self.is_endless, self._is_cut = is_endless, is_cut

    def frames(self) -> Generator[LazyFrame, None, None]:
        yield LazyFrame("a#0", lambda: plain(1, 0, 0))
        if self._is_cut:
            yield LazyFrame("a (its end)", None, reason="Connection timed out", is_cut=True)


def source_of(reel: Scripted, *, is_live: bool) -> Source:
    clock = Clock()
    return Source(reel, "cam", Pace(0, clock, clock.sleep), loop=False, is_live=is_live)


def test_a_stream_that_breaks_off_is_gone_and_a_file_gives_what_there_is() -> None:
    with pytest.raises(SourceUnusable, match="cam broke off: Connection timed out"):
        list(source_of(Scripted(is_cut=True), is_live=True))
    file = source_of(Scripted(is_cut=True), is_live=False)
    assert (len(list(file)), file.damaged) == (1, 1)


def test_an_end_is_one_only_where_there_can_be_one() -> None:
    assert len(list(source_of(Scripted(), is_live=True))) == 1
    with pytest.raises(SourceUnusable, match="cam sends nothing more"):
        list(source_of(Scripted(is_endless=True), is_live=True))
