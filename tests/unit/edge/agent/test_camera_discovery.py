"""Cameras that answer on the network: what is read of their answers, whatever these are."""

from __future__ import annotations

import pytest

from app.edge.agent import options
from app.edge.agent.camera_discovery import CameraDiscovery, cameras_in, discover
from app.kit.errors import BadInput
from app.nodes.model import DiscoveredCamera
from tests.harness.onvif_camera import INTERFACE, OnvifCamera, answer
from tests.harness.ports import free_port

SERVICE = "http://10.0.0.7/onvif/device_service"
SCOPES = (
    "onvif://www.onvif.org/type/video_encoder onvif://www.onvif.org/name/Front%20door "
    "onvif://www.onvif.org/hardware/X-100 http://elsewhere.example/name/no"
)


@pytest.fixture(autouse=True)
def port(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the real one, at which other tests' cameras answer."""
    monkeypatch.setattr("app.edge.agent.camera_discovery.PORT", free_port())


@pytest.mark.slow
def test_cameras_answer_with_where_they_are_and_what_they_are_called() -> None:
    """Over the real multicast address, on the loopback."""
    with OnvifCamera(SERVICE, SCOPES), OnvifCamera("http://[fe80::1]/onvif http://10.0.0.3:8000/onvif"):
        seen = discover(INTERFACE)
    assert seen == (
        DiscoveredCamera("10.0.0.3", "http://10.0.0.3:8000/onvif"),
        DiscoveredCamera("10.0.0.7", SERVICE, "Front door", "X-100"),
    )


@pytest.mark.slow
def test_who_looks_around_keeps_those_that_answered_last() -> None:
    discovery = CameraDiscovery(INTERFACE, listen_s=2.0)
    with OnvifCamera(SERVICE):
        discovery.look()
    assert [camera.address for camera in discovery.cameras] == ["10.0.0.7"]
    discovery.look()
    assert discovery.cameras == ()


def test_without_an_interface_nothing_is_sent_and_one_that_is_not_there_does_no_harm() -> None:
    discovery = CameraDiscovery("")
    discovery.start()
    discovery.close()
    nowhere = CameraDiscovery("192.0.2.1", listen_s=0.1)
    nowhere.look()
    assert nowhere.cameras == ()


BOMB = b'<!DOCTYPE a [<!ENTITY b "b">]>'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"<a/>",
        answer("another", SERVICE),
        BOMB + answer("q", SERVICE).partition(b"?>")[2],
        (BOMB + answer("q", SERVICE).partition(b"?>")[2]).decode().encode("utf-16"),
        answer("q", ""),
        answer("q", "file:///etc/passwd"),
        answer("q", "http://user:password@10.0.0.7/"),
        answer("q", "http://10.0.0.7/" + "a" * 500),
    ],
)
def test_what_is_no_answer_names_nothing(data: bytes) -> None:
    assert cameras_in(data, "q") == []


def test_names_are_bounded() -> None:
    (camera,) = cameras_in(answer("q", SERVICE, "onvif://www.onvif.org/name/" + "a" * 5000), "q")
    assert len(camera.name) == 100


def test_the_interface_is_an_address_of_this_machine() -> None:
    assert (options.interface(" 192.168.1.10 "), options.interface("")) == ("192.168.1.10", "")
    with pytest.raises(BadInput, match="no address"):
        options.interface("eth0")
