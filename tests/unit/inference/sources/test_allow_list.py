"""Only what a node's administrator offers can be opened, and nothing is told of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.inference.sources.allow_list import SourceNotOffered, resolve_source
from app.inference.sources.factory import hide_credentials


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "offered" / "cam").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "offered" / "cam" / "a.png").write_bytes(b"mine")
    (tmp_path / "secret" / "b.png").write_bytes(b"of somebody else")
    (tmp_path / "offered" / "link").symlink_to(tmp_path / "secret")
    return tmp_path


@pytest.mark.parametrize("source", ["offered", "offered/cam/a.png", "offered/later", "offered/cam/../cam"])
def test_a_folder_offers_itself_and_all_below_it(place: Path, source: str) -> None:
    assert resolve_source(f"{place}/{source}", [f"{place}/offered"]) == str((place / source).resolve())


@pytest.mark.parametrize(
    "source", ["secret/b.png", "secret/none.png", "offered/../secret/b.png", "offered/link/b.png", "offered2", ""]
)
def test_whatever_else_is_refused_and_whether_it_is_there_is_not_said(place: Path, source: str) -> None:
    with pytest.raises(SourceNotOffered) as caught:
        resolve_source(f"{place}/{source}", [f"{place}/offered"])
    assert caught.value.message == "This node does not offer this source."
    assert str(place) not in caught.value.message + caught.value.hint


def test_without_an_offer_nothing_can_be_opened(place: Path) -> None:
    for source in (f"{place}/offered/cam/a.png", "rtsp://10.0.0.1/cam", "/dev/video0", "a\0b"):
        with pytest.raises(SourceNotOffered):
            resolve_source(source, [])


PATTERNS = ["rtsp://10.0.0.*/cam*", "https://cameras.example:8443/live/*", "/offered"]


@pytest.mark.parametrize(
    "url",
    [
        "rtsp://10.0.0.7/cam1",
        "RTSP://10.0.0.7/cam",
        "rtsp://u:p@10.0.0.7/cam?x=1",
        "rtspu://10.0.0.7/cam1",
        "RTSPT://10.0.0.7/cam1",
        "https://cameras.example:8443/live/1.m3u8",
    ],
)
def test_a_url_of_a_pattern_is_offered(url: str) -> None:
    assert resolve_source(url, PATTERNS) == url


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.7/cam1",
        "rtsp://10.0.1.7/cam1",
        "rtsp://10.0.0.7/other",
        "rtsp://10.0.0.7.elsewhere.example/cam1",
        "rtsp://10.0.0.7:22/cam1",
        "https://cameras.example/live/1",
        "https://cameras.example:8443/live/../admin",
        "https://cameras.example:8443/live/%2e%2e/admin",
        "https://evil.example/@cameras.example:8443/live/1",
        "https://cameras.example:8443@evil.example/live/1",
        "https://evil.example\\@cameras.example:8443/live/1",
        "file:///etc/passwd",
        "rtsp://",
        "https://[::1/live/1",
        "rtsp://10.0.0.7\n.evil.example/cam",
    ],
)
def test_any_other_url_is_refused(url: str) -> None:
    with pytest.raises(SourceNotOffered):
        resolve_source(url, PATTERNS)


def test_in_a_host_a_star_is_one_part_and_at_its_beginning_all_of_them() -> None:
    patterns = ["https://*.cameras.example:*/*", "rtsp://*/cam"]
    for url in ("https://a.b.cameras.example:81/x", "rtsp://anywhere.example:554/cam"):
        assert resolve_source(url, patterns) == url
    with pytest.raises(SourceNotOffered):
        resolve_source("https://a.cameras.example.elsewhere.example:81/x", patterns)


def test_what_is_withheld_is_as_if_it_were_not_offered_also_where_a_wider_offer_covers_it(place: Path) -> None:
    whole, camera = f"{place}/offered", f"{place}/offered/cam"
    assert resolve_source(f"{place}/offered/later", [whole], [camera]) == f"{place}/offered/later"
    for source in (camera, f"{camera}/a.png", f"{place}/offered/later/../cam", whole):
        with pytest.raises(SourceNotOffered):
            resolve_source(source, [whole], [camera])
    assert resolve_source(f"{camera}/a.png", [camera], [whole]) == f"{camera}/a.png", "the nearest folder decides"
    with pytest.raises(SourceNotOffered):
        resolve_source(f"{camera}/a.png", [camera], [camera])


@pytest.mark.parametrize(
    "url",
    [
        "rtsp://10.0.0.7/cam1",
        "rtsp://u:p@10.0.0.7/cam1?x=1",
        "rtsp://10.0.0.7//cam1",
        "rtsp://10.0.0.7/%63am1",
        "rtsp://10.0.0.7/cam1/sub",
        "rtsp://10.0.0.7/cam1/",
    ],
)
def test_no_spelling_opens_a_withheld_camera_through_a_pattern(url: str) -> None:
    with pytest.raises(SourceNotOffered):
        resolve_source(url, ["rtsp://10.0.0.*/*"], ["rtsp://10.0.0.7:554/cam1"])
    assert resolve_source("rtsp://10.0.0.7/cam10", ["rtsp://10.0.0.*/*"], ["rtsp://10.0.0.7/cam1"])


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
    assert "hunter2" not in hide_credentials(url) and "annie" not in hide_credentials(url)
