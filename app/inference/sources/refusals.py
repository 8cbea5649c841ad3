"""Why a source cannot be opened, in words for readers."""

from __future__ import annotations

import errno
import os
import socket
from urllib.parse import urlsplit

from app.kit.text.plain_text import reason_of

AUTHORITIES = "MODELMILL_CAMERA_AUTHORITIES"
"""The environment variable that names a PEM file: certificates of cameras by https are checked against its authorities.
FFmpeg passes such options on to no other protocol."""
OF_CAMERAS = {errno.ENOTTY: "it is no camera", errno.EBUSY: "another program has the camera open"}
OF_STREAMS = {
    errno.EPROTONOSUPPORT: "it does not send its pictures that way; rtsp:// leaves the way to it",
    errno.EADDRINUSE: "another program of this node receives at its port",
    errno.EADDRNOTAVAIL: "this node has no such address to receive at",
}
REFUSALS = {
    "HTTPUnauthorizedError": "its URL has no user and password, or wrong ones (401)",
    "HTTPForbiddenError": "its user may not see it (403)",
    "HTTPNotFoundError": "its host has no such stream (404)",
    "HTTPServerError": "its host has a fault of its own (5xx)",
    "HTTPTooManyRequestsError": "its host has too many requests (429)",
    "ConnectionRefusedError": "nothing listens at its host and port",
    "ProtocolNotFoundError": "the FFmpeg of this node does not know this kind of address",
    "PermissionError": "the user that the agent runs as may not open it; cameras belong to the group video",
}
"""By PyAV's exceptions."""
HOST_UNKNOWN = "its host is not known"
DISCONNECTED = "its host has ended the connection"
NO_VIDEO = f"{DISCONNECTED}, or sends something else than a video, such as a page"
UNTRUSTED = f"its host has ended the connection, or has a certificate of no authority in {AUTHORITIES}"
LEADS_ELSEWHERE = "it leads to an address of a kind that is not followed"
REFUSED = "its server refuses it: there is no such stream, or the URL has no user and password, or wrong ones"
"""Servers of RTMP end the connection, or answer what FFmpeg calls unknown."""
UNKNOWN = "UnknownError"


def describe(error: BaseException) -> str:
    """Returns its text without the path or address that Python's and FFmpeg's own texts repeat, and with it a
    password."""
    return getattr(error, "strerror", None) or reason_of(error)


def explain_local(error: BaseException) -> str:
    """Returns why a camera, file or pipe of this machine cannot be opened; empty if that is not known."""
    return OF_CAMERAS.get(getattr(error, "errno", 0)) or REFUSALS.get(type(error).__name__, "")


def explain_stream(error: BaseException, url: str) -> str:
    """Returns why FFmpeg does not open the stream; empty if that is not known. A host may have to be looked up."""
    number, kind = getattr(error, "errno", 0), type(error).__name__
    is_rtmp, is_http = (url.lower().startswith(scheme) for scheme in ("rtmp", "http"))
    if number == errno.EIO and not is_host_known(url):
        return HOST_UNKNOWN
    if is_rtmp and (number == errno.EIO or kind == UNKNOWN):
        return REFUSED
    if number == errno.EIO:
        is_checked = url.lower().startswith("https:") and os.environ.get(AUTHORITIES)
        return UNTRUSTED if is_checked else NO_VIDEO if is_http else DISCONNECTED
    if number == errno.EINVAL and is_http:
        return LEADS_ELSEWHERE
    return OF_STREAMS.get(number) or REFUSALS.get(kind, "")


def is_host_known(url: str) -> bool:
    """Returns whether the host of the URL has an address."""
    try:
        return bool(socket.getaddrinfo(urlsplit(url).hostname, None))
    except (OSError, ValueError):
        return False
