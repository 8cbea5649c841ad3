"""Video by SRT (Secure Reliable Transport), by the libsrt of this machine: the FFmpeg of PyAV's wheels has none."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import cache
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit

from app.inference.errors import DecoderMissing
from app.inference.sources.refusals import HOST_UNKNOWN

LIBRARIES = ("libsrt-gnutls.so.1.5", "libsrt.so.1.5")
"""Names of the library, by whose cryptography it uses."""
MESSAGE_BYTES = 1456
"""What a message of a live stream has at most."""
LATENCY_MS = 10_000
"""More than this is assumed to be in another unit."""
CONNECT_S = 3.0
"""Seconds in which the other side has to answer at all."""
RECEIVE_TIMEOUT, LATENCY, PASSPHRASE, CONNECT_TIMEOUT, STREAM_ID, PEER_TIMEOUT = 14, 23, 26, 36, 46, 55
"""Options of a socket, by their numbers (SRT_SOCKOPT)."""
TIMED_OUT = (6002, 6003)
"""Numbers of errors (SRT_ERRNO)."""
CRITICAL = 2
"""What is less than that is not logged: libsrt would write to the standard error output."""
REASONS = {
    2: "its server refuses the connection",
    10: "its URL has a wrong passphrase",
    11: "its URL has no passphrase though one is needed, or has one though none is",
    16: "nothing answers at its host and port",
    1401: "its streamid has no user and password, or wrong ones (401)",
    1403: "its streamid may not be read (403)",
    1404: "its server has no such stream (404)",
}
"""Why a connection is refused (SRT_REJECT_REASON; by a thousand more: what the server's program says)."""


def is_srt(place: str) -> bool:
    """Returns whether it is the URL of such a stream."""
    return place.lower().startswith("srt://")


class SrtRefused(OSError):
    """The stream cannot be received; its text says why."""


def require_libsrt(name: str) -> ctypes.CDLL:
    """Loads libsrt, and starts its threads the first time.

    Raises:
        DecoderMissing: This machine does not have it; the message names the video.
    """
    libsrt = _load()
    if libsrt is None:
        raise DecoderMissing(
            f"{name} comes by SRT, and this node has no libsrt to receive it with",
            hint="Install it: apt-get install libsrt1.5-gnutls, or your system's package of libsrt.",
        )
    return libsrt


@cache
def _load() -> ctypes.CDLL | None:
    for library in LIBRARIES:
        with suppress(OSError):
            libsrt = ctypes.CDLL(library)
            libsrt.srt_rejectreason_str.restype = libsrt.srt_getlasterror_str.restype = ctypes.c_char_p
            libsrt.srt_accept_bond.argtypes = (ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int64)
            libsrt.srt_startup()
            libsrt.srt_setloglevel(CRITICAL)
            return libsrt
    return None


class SrtStream:
    """The receiving end of a stream of messages, for PyAV. By `?mode=listener` it waits for a sender to connect.

    Args:
        url: as other programs take it, with `passphrase`, `streamid`, and `latency` in milliseconds.
        patience_s: seconds that a sender is waited for, and each of its messages.
        silence: returns the error of having waited so long.
    """

    def __init__(self, url: str, *, patience_s: float, silence: Callable[[], Exception]) -> None:
        """Connects.

        Raises:
            DecoderMissing: This machine has no libsrt.
            SrtRefused: There is no connection.
        """
        self._srt, self._silence = require_libsrt("the stream"), silence
        self._buffer = ctypes.create_string_buffer(MESSAGE_BYTES)
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        if parts.fragment:
            raise SrtRefused("its URL has a #, which is written %23 there")
        if not (is_listener := options.get("mode") == "listener") and options.get("mode", "caller") != "caller":
            raise SrtRefused("its mode has to be caller or listener")
        address = _find_address(parts.hostname or "", parts.port)
        with ExitStack() as opened:
            self._socket = self._open(opened, options, round(patience_s * 1000))
            if is_listener:
                self._socket = self._accept(opened, address, round(patience_s * 1000))
            elif self._srt.srt_connect(self._socket, address, len(address)) < 0:
                raise self._refusal()
            self._opened = opened.pop_all()

    def __enter__(self) -> SrtStream:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._opened.close()

    def read(self, size: int = MESSAGE_BYTES) -> bytes:
        """Returns a message, which is shorter than what PyAV reads at a time; nothing at the end."""
        count = self._srt.srt_recvmsg(self._socket, self._buffer, min(size, MESSAGE_BYTES))
        if count >= 0:
            return self._buffer.raw[:count]
        if self._srt.srt_getlasterror(None) in TIMED_OUT:
            raise self._silence()
        return b""

    def _open(self, opened: ExitStack, options: Mapping[str, str], patience_ms: int) -> int:
        """Opens a socket."""
        number: int = self._srt.srt_create_socket()
        opened.callback(self._srt.srt_close, number)
        for option, ms in (
            (RECEIVE_TIMEOUT, patience_ms),
            (PEER_TIMEOUT, patience_ms),
            (CONNECT_TIMEOUT, round(CONNECT_S * 1000)),
        ):
            self._set(number, option, struct.pack("=i", ms), "")
        if latency := options.get("latency", ""):
            problem = f"its latency has to be in milliseconds, at most {LATENCY_MS:,}"
            if not latency.isdecimal() or int(latency) > LATENCY_MS:
                raise SrtRefused(problem)
            self._set(number, LATENCY, struct.pack("=i", int(latency)), problem)
        if passphrase := options.get("passphrase", ""):
            self._set(number, PASSPHRASE, passphrase.encode(), "its passphrase has to have 10 to 79 bytes")
        if stream_id := options.get("streamid", ""):
            self._set(number, STREAM_ID, stream_id.encode(), "its streamid has to have at most 512 bytes")
        return number

    def _set(self, number: int, option: int, value: bytes, problem: str) -> None:
        if self._srt.srt_setsockflag(number, option, value, len(value)) < 0:
            raise SrtRefused(problem)

    def _accept(self, opened: ExitStack, address: bytes, patience_ms: int) -> int:
        """Waits for the first sender."""
        if self._srt.srt_bind(self._socket, address, len(address)) < 0 or self._srt.srt_listen(self._socket, 1) < 0:
            raise self._refusal()
        accepted: int = self._srt.srt_accept_bond(ctypes.byref(ctypes.c_int(self._socket)), 1, patience_ms)
        if accepted < 0:
            raise self._silence()
        opened.callback(self._srt.srt_close, accepted)
        return accepted

    def _refusal(self) -> SrtRefused:
        number, system = self._srt.srt_getrejectreason(self._socket), ctypes.c_int()
        self._srt.srt_getlasterror(ctypes.byref(system))
        reason: bytes = self._srt.srt_rejectreason_str(number) if number else self._srt.srt_getlasterror_str()
        return SrtRefused(system.value, REASONS.get(number) or reason.decode(errors="replace"))


def _find_address(host: str, port: int | None) -> bytes:
    """Returns the socket address as C has it.

    Raises:
        SrtRefused: The host is not known.
    """
    if port is None:
        raise SrtRefused("its URL has no port")
    try:
        family, _, _, _, place = min(socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM))
    except OSError as error:
        raise SrtRefused(HOST_UNKNOWN) from error
    head = struct.pack("=H", family) + struct.pack("!H", port)
    packed = socket.inet_pton(family, str(place[0]).partition("%")[0])
    if family == socket.AF_INET:
        return head + packed + bytes(8)
    scope = place[3] if len(place) > 3 else 0
    return head + bytes(4) + packed + struct.pack("=I", scope)
