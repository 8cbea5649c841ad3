"""Pictures that a host keeps for the next stages of a frame, and those it cannot read."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from app.edge.errors import BadPicture
from app.edge.video.runner.frame_transport import H264Encoder
from app.edge.video.stage_host.errors import NoDecoder
from app.edge.video.stage_host.pictures import H264Decoders, PictureCache, RecentPictures, has_keyframe
from app.inference.picture_codec import encode
from app.kit.errors import BadRequest
from app.video.model.stage_call import KEPT, PNG, RAW, Call, Encoded, KeyframeNeeded, PictureNotKept

LONG_S = 60.0
"""No test waits so long when all is well."""


def square(level: int = 0, side: int = 10) -> np.ndarray:
    return np.full((side, side, 3), level, np.uint8)


@pytest.fixture
def cache() -> Iterator[PictureCache]:
    pictures = PictureCache()
    yield pictures
    pictures.close()


def test_only_the_newest_frames_of_a_job_are_kept() -> None:
    kept = RecentPictures(most_frames=3)
    for number in range(5):
        kept.keep(("a", str(number), "image"), (square(number),))
        kept.keep(("a", str(number), "mask"), (square(number),))
    kept.keep(("b", "0", "image"), (square(),))
    assert kept.get(("a", "1", "image")) is kept.get(("a", "1", "mask")) is None
    assert kept.get(("a", "2", "image")) is not None
    assert kept.get(("b", "0", "image")) is not None
    assert kept.bytes == 7 * 300


def test_so_many_bytes_are_kept_and_no_more() -> None:
    kept = RecentPictures(most_bytes=1000)
    for number in range(5):
        kept.keep((f"job-{number}", "0", "image"), (square(),))
        assert kept.bytes <= 1000
    assert len(kept) == 3
    kept.keep(("big", "0", "image"), (square(side=100),))
    assert kept.bytes == len(kept) == 0


def test_a_picture_that_comes_again_is_counted_once() -> None:
    kept = RecentPictures()
    for level in (1, 2):
        kept.keep(("a", "0", "image"), (square(level),))
    assert kept.bytes == 300
    entry = kept.get(("a", "0", "image"))
    assert entry is not None
    assert entry[0].max() == 2


def test_a_grey_picture_is_given_to_stages_in_colour(cache: PictureCache) -> None:
    data, kind = encode(np.full((10, 12), 77, np.uint8))
    decoded = asyncio.run(cache.of(Call("s", pictures={"image": (Encoded(data, kind),)})))
    assert decoded["image"][0].shape == (10, 12, 3)


@pytest.mark.parametrize(
    ("encoded", "error", "message"),
    [
        (Encoded(b"none"), BadPicture, "field image: these 4 bytes"),
        (Encoded(b"none", PNG), BadPicture, "field image"),
        (Encoded(bytes(5), f"{RAW};width=1;height=2"), BadPicture, "5 bytes are no picture"),
        (Encoded(bytes(6), f"{RAW};width=1"), BadRequest, "height is to be a whole number"),
        (Encoded(bytes(6), f"{RAW};width=-1;height=-2"), BadRequest, "width is to be"),
        (Encoded(b"", f"{RAW};width=99999;height=99999"), BadPicture, "no picture"),
        (Encoded(b"x", "text/x-python"), NoDecoder, "'text/x-python'"),
        (Encoded(b"x", "video/h264"), KeyframeNeeded, "has not come"),
        (Encoded(b"x", "video/h264;seq=a"), BadRequest, "seq is to be"),
        (Encoded(b"\0\0\1\x65junk", "video/h264;seq=1"), KeyframeNeeded, "decoded|whole pictures"),
        (Encoded(b"", KEPT), PictureNotKept, "frame 7 is not kept"),
    ],
)
def test_what_cannot_be_read_is_told(
    cache: PictureCache, encoded: Encoded, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        asyncio.run(cache.of(Call("s", pictures={"image": (encoded,)}, job="a", frame="7")))


def test_what_no_job_has_sent_is_kept_for_nobody(cache: PictureCache) -> None:
    pictures = {"image": (Encoded(square().tobytes(), f"{RAW};width=10;height=10"),)}
    asyncio.run(cache.of(Call("s", pictures=pictures, frame="7")))
    assert len(cache.kept) == 0
    asyncio.run(cache.of(Call("s", pictures=pictures, job="a", frame="7")))
    assert len(cache.kept) == 1


def test_without_pyav_h264_is_refused_with_a_hint(cache: PictureCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(NoDecoder, match="no PyAV") as caught:
        asyncio.run(cache.of(Call("s", pictures={"image": (Encoded(b"x", "video/h264"),)}, job="a")))
    assert caught.value.status == 415
    assert "modelmill[edge]" in caught.value.hint


def test_streams_that_nobody_used_lately_are_given_up() -> None:
    streams = H264Decoders(most=2)
    first = streams.of("a", "image")
    streams.of("b", "image")
    assert streams.of("a", "image") is first
    streams.of("c", "image")
    assert len(streams) == 2
    assert streams.of("a", "image") is first


def test_a_call_may_name_a_picture_before_it_has_come(cache: PictureCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.edge.video.stage_host.pictures.ARRIVAL_S", LONG_S)
    kept, sent = Encoded(b"", KEPT), Encoded(square(7).tobytes(), f"{RAW};width=10;height=10")

    async def both() -> list[np.ndarray]:
        calls = [Call("s", pictures={"image": (each,)}, job="a", frame="7") for each in (kept, sent)]
        return [picture["image"][0] for picture in await asyncio.gather(*map(cache.of, calls))]

    early, brought = asyncio.run(both())
    assert early is brought


def test_packets_that_overtake_each_other_are_decoded_in_their_order(
    cache: PictureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.edge.video.stage_host.pictures.ARRIVAL_S", LONG_S)
    made = H264Encoder()
    packets = [made.packet(np.full((64, 64, 3), level, np.uint8)) for level in (0, 80, 160, 240)]

    async def levels() -> list[float]:
        several = [
            cache.of(Call("s", pictures={"image": (packets[number],)}, job="a", frame=str(number)))
            for number in (2, 1, 3, 0)
        ]
        return [float(picture["image"][0].mean()) for picture in await asyncio.gather(*several)]

    assert asyncio.run(levels()) == pytest.approx([160, 80, 240, 0], abs=6)


def test_a_packet_that_comes_too_late_ends_no_stream(cache: PictureCache) -> None:
    made = H264Encoder()
    packets = [made.packet(square(side=64), lost=lost) for lost in (0, 0, 2, 0)]

    async def told() -> list[str]:
        events = []
        for number in (0, 2, 1, 3):
            with contextlib.suppress(KeyframeNeeded):
                await cache.of(Call("s", pictures={"image": (packets[number],)}, job="a", frame=str(number)))
                events.append(str(number))
        return events

    assert asyncio.run(told()) == ["0", "2", "3"]


def test_a_lost_packet_is_made_good_by_one_keyframe() -> None:
    made, picture = H264Encoder(), square(side=64)
    packets = [made.packet(picture) for _ in range(4)]
    assert [has_keyframe(packet.data) for packet in packets] == [True, False, False, False]
    assert [has_keyframe(made.packet(picture, lost=lost).data) for lost in (3, 2, 4)] == [True, False, False]
