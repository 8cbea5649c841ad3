"""URLs are shown without user and password."""

from __future__ import annotations

import pytest

from app.kit.network.url_credentials import without_credentials


def test_a_pattern_is_named_without_its_password() -> None:
    assert without_credentials("rtsp://user:pass@10.0.0.*/cam*") == "rtsp://10.0.0.*/cam*"
    assert without_credentials("rtsp://user:p@ss@10.0.0.*/cam*") == "rtsp://10.0.0.*/cam*"
    assert without_credentials("/data/a@b") == "/data/a@b"
    assert without_credentials("/data/user=ann") == "/data/user=ann"


@pytest.mark.parametrize(
    "url",
    [
        "rtsp://annie:p@hunter2/x@camera/1",
        "rtsp://annie:12/hunter2@camera/1",
        "rtsp://camera:554/user=annie&password=hunter2&channel=1",
        "rtsp://camera:554/user=annie_password=hunter2_channel=1_stream=0.sdp",
        "http://camera/video?Username=annie&pwd=hunter2",
    ],
)
def test_a_password_is_not_told_wherever_it_stands(url: str) -> None:
    shown = without_credentials(url)
    assert "hunter2" not in shown and "annie" not in shown and "camera" in shown
