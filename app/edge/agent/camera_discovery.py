"""ONVIF cameras on the network, by WS-Discovery (2005/04): a query to a multicast address, which each camera answers
with its address. Nothing is requested from the cameras themselves, so neither their passwords nor their streams are
known.

Anybody on that network may answer: responses are limited, and shown unchanged.
"""

from __future__ import annotations

import logging
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from app.kit.process.periodic_thread import PeriodicThread
from app.nodes.model import DiscoveredCamera

GROUP, PORT = "239.255.255.250", 3702
LISTEN_S = 3.0
EVERY_S = 60.0
MOST = 200
MOST_BYTES, MOST_TEXT = 65_507, 100
HOPS = 1
"""Time to live of the query, which keeps it in this network."""
SOAP = "http://www.w3.org/2003/05/soap-envelope"
ADDRESSING = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
DISCOVERY = "http://schemas.xmlsoap.org/ws/2005/04/discovery"
SCOPE = "onvif://www.onvif.org/"
PROBE = f"""<?xml version="1.0" encoding="UTF-8"?>
<s:Envelope xmlns:s="{SOAP}" xmlns:a="{ADDRESSING}" xmlns:d="{DISCOVERY}">
<s:Header><a:Action>{DISCOVERY}/Probe</a:Action><a:MessageID>%s</a:MessageID>
<a:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</a:To></s:Header>
<s:Body><d:Probe><d:Types xmlns:n="http://www.onvif.org/ver10/network/wsdl">n:NetworkVideoTransmitter</d:Types></d:Probe>
</s:Body></s:Envelope>"""
logger = logging.getLogger(__name__)


class CameraDiscovery:
    """Looks around each minute, in a thread of its own.

    Args:
        interface: address of this machine on the network of the cameras; empty: it does not look.
        listen_s: how long answers are waited for, in seconds.

    Attributes:
        cameras: that answered last, by address.
    """

    def __init__(self, interface: str, *, listen_s: float = LISTEN_S) -> None:
        self.cameras: tuple[DiscoveredCamera, ...] = ()
        self._interface, self._listen_s = interface, listen_s
        self._thread = PeriodicThread("cameras", self.look, every_s=EVERY_S, patience_s=0.0)

    def start(self) -> None:
        if self._interface:
            self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def look(self) -> None:
        try:
            self.cameras = discover(self._interface, self._listen_s)
        except OSError as error:
            logger.warning("Cameras cannot be looked for on the network of %s: %s", self._interface, error)


def discover(interface: str, listen_s: float = LISTEN_S) -> tuple[DiscoveredCamera, ...]:
    """Returns those that answer in time, by address, each once.

    Args:
        interface: address of this machine on the cameras' network.
        listen_s: seconds to wait for answers.

    Raises:
        OSError: The query cannot be sent.
    """
    seen = dict[str, DiscoveredCamera]()
    question = f"urn:uuid:{uuid.uuid4()}"
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, HOPS)
        sender.bind((interface, 0))
        sender.sendto((PROBE % question).encode(), (GROUP, PORT))
        for answer in _receive_answers(sender, listen_s):
            for camera in cameras_in(answer, question):
                if len(seen) < MOST:
                    seen[camera.service] = camera
    return tuple(sorted(seen.values(), key=lambda camera: (camera.address, camera.service)))


def cameras_in(answer: bytes, question: str) -> list[DiscoveredCamera]:
    """Returns the cameras in an answer; none if it is invalid, or answers another query.

    Args:
        question: MessageID of the query.
    """
    root = _parse_root(answer)
    if root is None or root.findtext(f".//{{{ADDRESSING}}}RelatesTo", "").strip() != question:
        return []
    matches = (_read_camera(match) for match in root.iter(f"{{{DISCOVERY}}}ProbeMatch"))
    return [camera for camera in matches if camera is not None]


def _receive_answers(sender: socket.socket, listen_s: float) -> Iterator[bytes]:
    until = time.monotonic() + listen_s
    while (left := until - time.monotonic()) > 0:
        sender.settimeout(left)
        try:
            yield sender.recv(MOST_BYTES)
        except TimeoutError:
            return


def _parse_root(answer: bytes) -> ET.Element | None:
    """Returns None for anything but XML, and for a document with declarations, since entities could grow without
    limit."""
    try:
        root: ET.Element = fromstring(answer, forbid_dtd=True)
    except (ET.ParseError, DefusedXmlException):
        return None
    return root


def _read_camera(match: ET.Element) -> DiscoveredCamera | None:
    """Returns None if it has no URL."""
    services = [url for url in match.findtext(f"{{{DISCOVERY}}}XAddrs", "").split() if _get_host(url)]
    if not services:
        return None
    scopes = match.findtext(f"{{{DISCOVERY}}}Scopes", "").split()
    facts = {kind: value for scope in scopes for kind, value in [_parse_scope(scope)] if kind}
    service = next((url for url in services if "." in _get_host(url)), services[0])
    return DiscoveredCamera(_get_host(service), service, facts.get("name", ""), facts.get("hardware", ""))


def _parse_scope(scope: str) -> tuple[str, str]:
    """Splits onvif://www.onvif.org/name/Front%20door into name and Front door; other scopes are ignored."""
    kind, _, value = scope.removeprefix(SCOPE).partition("/") if scope.startswith(SCOPE) else ("", "", "")
    text = unquote(value)[:MOST_TEXT]
    return (kind, text) if text.isprintable() else ("", "")


def _get_host(url: str) -> str:
    """Returns the host; empty for anything but a URL of HTTP."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and len(url) <= MOST_TEXT * 2 and url.isprintable()
        return (parts.hostname or "") if is_one and parts.username is None else ""
    except ValueError:
        return ""
