"""Decoding by hardware: the real fall-back to software of a machine without any, and devices that are pretended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import pytest
from av.codec import hwaccel

from app.inference.sources import open_source, open_video_source
from app.inference.sources.hardware_decoder import VARIABLE, HardwareDecoder, hardware_decoder
from tests.harness.video.runner import video


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    hardware_decoder.cache_clear()
    yield
    hardware_decoder.cache_clear()


class Pretended:
    """In place of HWAccel: devices that open, or fail in a way."""

    def __init__(self, device: str, allow_software_fallback: bool = False) -> None:
        self.device, self.allow_software_fallback = device, allow_software_fallback

    def create(self, _: Any) -> None:
        error = {"cuda": OSError(1, "Operation not permitted"), "vaapi": NotImplementedError()}.get(self.device)
        if error is not None:
            raise error


def pretend(patched: pytest.MonkeyPatch, *devices: str) -> None:
    patched.setattr(hwaccel, "HWAccel", Pretended)
    patched.setattr(hwaccel, "hwdevices_available", lambda: list(devices))


def test_a_video_is_decoded_whatever_the_machine_has(tmp_path: Path) -> None:
    decoding = hardware_decoder()
    assert decoding.device or decoding.reason
    assert len(list(open_source(str(video(tmp_path / "clip.mp4", frames=5))))) == 5


def test_without_a_usable_device_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "cuda", "vaapi", "drm")
    assert hardware_decoder().text == "software (NVDEC: Operation not permitted)"
    assert hardware_decoder().options() == {}


def test_without_a_device_that_ffmpeg_knows_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    assert hardware_decoder().text == "software (this FFmpeg supports none of the machine's devices)"


def test_the_first_device_that_opens_decodes_and_software_what_it_cannot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, "cuda", "vaapi", "qsv")
    assert hardware_decoder() == HardwareDecoder("qsv")
    opened, real = list[Pretended](), av.open

    def opens(*args: Any, hwaccel: Pretended, **options: Any) -> Any:
        opened.append(hwaccel)
        return real(*args, **options)

    monkeypatch.setattr(av, "open", opens)
    assert len(list(open_source(str(video(tmp_path / "clip.mp4", frames=5))))) == 5
    assert {(one.device, one.allow_software_fallback) for one in opened} == {("qsv", True)}


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "qsv")
    monkeypatch.setenv(VARIABLE, "off")
    assert hardware_decoder().text == f"software ({VARIABLE} is off)"


def test_v4l2_m2m_is_used_on_request_only_and_without_a_device_software_decodes_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The real decoder of FFmpeg, on a machine that has no device for it."""
    pretend(monkeypatch, "qsv")
    assert hardware_decoder().device == "qsv"
    hardware_decoder.cache_clear()
    monkeypatch.setenv(VARIABLE, "v4l2m2m")
    assert hardware_decoder().text == "software (V4L2 M2M: Invalid argument)"
    assert len(list(open_source(str(video(tmp_path / "clip.mp4", frames=5))))) == 5


@pytest.mark.parametrize("known", [("h264", "mpeg4"), ("h264",)], ids=["known", "unknown"])
def test_a_format_that_v4l2_m2m_does_not_know_is_decoded_by_software(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: tuple[str, ...]
) -> None:
    """Decoders of software stand for those of a board."""
    clip, create, created = str(video(tmp_path / "clip.mp4", frames=12)), av.CodecContext.create, list[str]()

    def stand_in(name: str, *options: Any) -> Any:
        created.append(name)
        return create({f"{codec}_v4l2m2m": codec for codec in known}[name], *options)

    def frames() -> list[tuple[float | None, float]]:
        lazy_frames = open_video_source(clip)[0].frames()
        return [(frame.at, float(frame.read().mean())) for frame in lazy_frames if frame.read is not None]

    by_software = frames()
    hardware_decoder.cache_clear()
    monkeypatch.setenv(VARIABLE, "v4l2m2m")
    monkeypatch.setattr(av, "CodecContext", SimpleNamespace(create=stand_in))
    assert hardware_decoder().text == "V4L2 M2M"
    assert frames() == by_software and len(by_software) == 12
    assert created == ["h264_v4l2m2m", "mpeg4_v4l2m2m"]
