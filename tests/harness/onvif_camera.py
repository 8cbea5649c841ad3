"""An ONVIF camera as far as WS-Discovery goes: it hears the question on the multicast address, and answers.

Written after the schema of WS-Discovery (2005/04) and ONVIF's Core Specification, chapter 7.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from types import TracebackType

from app.edge.agent import camera_discovery
from app.edge.agent.camera_discovery import ADDRESSING, DISCOVERY, GROUP, SOAP

ANSWER = """<?xml version="1.0" encoding="UTF-8"?>
<s:Envelope xmlns:s="{soap}" xmlns:a="{addressing}" xmlns:d="{discovery}"
 xmlns:dn="http://www.onvif.org/ver10/network/wsdl">
<s:Header><a:MessageID>urn:uuid:0</a:MessageID><a:RelatesTo>{question}</a:RelatesTo>
<a:Action>{discovery}/ProbeMatches</a:Action></s:Header>
<s:Body><d:ProbeMatches><d:ProbeMatch><a:EndpointReference><a:Address>urn:uuid:1</a:Address></a:EndpointReference>
<d:Types>dn:NetworkVideoTransmitter</d:Types><d:Scopes>{scopes}</d:Scopes><d:XAddrs>{services}</d:XAddrs>
<d:MetadataVersion>1</d:MetadataVersion></d:ProbeMatch></d:ProbeMatches></s:Body></s:Envelope>"""
INTERFACE = "127.0.0.1"


def answer(question: str, services: str, scopes: str = "") -> bytes:
    return ANSWER.format(
        soap=SOAP, addressing=ADDRESSING, discovery=DISCOVERY, question=question, services=services, scopes=scopes
    ).encode()


class OnvifCamera:
    """services: its URLs, with blanks between them."""

    def __init__(self, services: str, scopes: str = "") -> None:
        self._services, self._scopes = services, scopes
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((GROUP, camera_discovery.PORT))
        membership = struct.pack("4s4s", socket.inet_aton(GROUP), socket.inet_aton(INTERFACE))
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        self._socket.settimeout(0.1)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> OnvifCamera:
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                data, sender = self._socket.recvfrom(65_507)
            except TimeoutError:
                continue
            question = re.search(r"MessageID>([^<]+)<", data.decode())
            if question and "NetworkVideoTransmitter" in data.decode():
                self._socket.sendto(answer(question[1], self._services, self._scopes), sender)
