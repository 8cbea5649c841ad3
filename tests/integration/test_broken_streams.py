"""Sources that are broken, with real servers: what is wrong is said in words, within the time that is documented."""

from __future__ import annotations

import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import av
import numpy as np
import pytest

from app.inference.errors import SourceUnusable
from app.inference.sources import open_video_source
from app.inference.sources.frames import LazyFrame
from app.inference.sources.refusals import AUTHORITIES, LEADS_ELSEWHERE, NO_VIDEO, REFUSED
from app.kit.signatures.certificates import CertificateAuthority, new_request
from tests.harness.camera import camera
from tests.harness.ffmpeg_server import FfmpegServer
from tests.harness.http_server import respond, served
from tests.harness.ports import free_port
from tests.harness.rtmp_refusal import rtmp_refusal
from tests.harness.rtsp_server import rtsp_server
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.until import until

LIMIT = "app.inference.sources.video.TIMEOUT_S"
SILENT = "it gave no picture for 1 s"
PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On however busy a machine, a server that is well is in time."""
    monkeypatch.setattr(LIMIT, 120.0)


@pytest.fixture
def impatient(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMIT, 1.0)


def problem_of(source: str) -> str:
    """Why it cannot be opened, without what every reason begins with."""
    video, name, _ = open_video_source(source)
    with closing(video.frames()) as frames, pytest.raises(SourceUnusable) as caught:
        next(frames)
    assert PASSWORD not in caught.value.message
    return caught.value.message.removeprefix(f"{name} cannot be opened as a video: ")


def last_of(source: str, at_frame: Callable[[], object] = lambda: None) -> LazyFrame | None:
    """What its frames end with; None: it could not be opened.

    Args:
        at_frame: called at the first frame.
    """
    last = None
    with closing(open_video_source(source)[0].frames()) as frames:
        try:
            for frame in frames:
                if last is None:
                    at_frame()
                last = frame
        except SourceUnusable:
            return None
    return last


# by HTTP
@pytest.mark.parametrize("path", ["video", "playlist.m3u8", "camera.ts"])
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "its URL has no user and password, or wrong ones (401)"),
        (403, "its user may not see it (403)"),
        (404, "its host has no such stream (404)"),
        (429, "its host has too many requests (429)"),
        (503, "its host has a fault of its own (5xx)"),
    ],
)
def test_what_a_host_answers_is_said(path: str, status: int, reason: str) -> None:
    with served(lambda request, _: request.send_error(status)) as url:
        assert problem_of(f"{url.replace('//', f'//ann:{PASSWORD}@')}/{path}") == reason


def test_a_page_and_what_leads_to_a_file_or_in_circles_are_no_video() -> None:
    def answer(request: BaseHTTPRequestHandler, _: bytes) -> None:
        request.send_response(200 if request.path == "/page" else 302)
        places = {"/file": "file:///etc/passwd", "/circle": "/circle"}
        request.send_header("location", places.get(request.path, ""))
        request.end_headers()
        request.wfile.write(b"<html>Log in</html>")

    with served(answer) as url:
        assert {problem_of(f"{url}/page"), problem_of(f"{url}/circle")} == {NO_VIDEO}
        assert problem_of(f"{url}/file") == LEADS_ELSEWHERE


def test_a_host_that_is_gone_or_not_known_is_said() -> None:
    port = free_port()
    for path in ("video", "playlist.m3u8", "camera.ts"):
        assert problem_of(f"http://127.0.0.1:{port}/{path}") == "nothing listens at its host and port"
    with ThreadPoolExecutor() as pool:
        schemes = ("http", "https", "rtsp", "rtspu", "rtsps", "rtmp", "rtmps", "udp")
        unknown = [f"{scheme}://ann:{PASSWORD}@camera.invalid:9000/a/b" for scheme in schemes]
        assert set(pool.map(problem_of, unknown)) == {"its host is not known"}


def test_a_host_that_is_silent_is_given_up(impatient: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        place = f"127.0.0.1:{listener.getsockname()[1]}/live/camera"
        schemes = ("http", "https", "rtsp", "rtsps", "rtmp", "rtmps")
        assert set(pool.map(problem_of, [f"{scheme}://{place}" for scheme in schemes])) == {SILENT}


def context_of(folder: Path, authority: CertificateAuthority, name: str, until: datetime) -> ssl.SSLContext:
    """Of a host with this name, whose certificate is good until then."""
    request = new_request()
    pem = authority.issue(request.request, name, serial=1, now=until - timedelta(days=2), until=until)
    (folder / "host.pem").write_text(pem + request.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "host.pem")
    return context


@pytest.mark.parametrize("host", ["another authority", "another name", "expired"])
def test_mjpeg_by_https_from_a_host_without_a_good_certificate_is_refused(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, day = CertificateAuthority("ours"), timedelta(days=1)
    (tmp_path / "ours.pem").write_text(ours.certificate)
    authority = CertificateAuthority("others") if host == "another authority" else ours
    name = "camera.example" if host == "another name" else "localhost"
    end = datetime.now(UTC) + (-day if host == "expired" else day)
    with camera(context=context_of(tmp_path, authority, name, end)) as made:
        url = made.url.replace("127.0.0.1", "localhost")
        monkeypatch.setenv(AUTHORITIES, str(tmp_path / "ours.pem"))
        assert f"certificate of no authority in {AUTHORITIES}" in problem_of(url)
        monkeypatch.delenv(AUTHORITIES)
        with closing(open_video_source(url)[0].frames()) as frames:
            assert next(frames).read is not None, "without authorities nothing is checked"


# RTSPS
def test_rtsp_by_tls_says_what_rtsp_says(tmp_path: Path) -> None:
    end = datetime.now(UTC) + timedelta(days=1)
    context = context_of(tmp_path, CertificateAuthority("theirs"), "localhost", end)
    options = ("--credentials", f"ann:{PASSWORD}", "--scheme", "digest")
    with rtsp_server(*options) as server, TcpProxy(server.port, context=context) as tls:
        place = f"rtsps://ann:{PASSWORD}@localhost:{tls.port}"
        assert problem_of(f"{place}/door") == "its host has no such stream (404)"
        wrong = problem_of(f"rtsps://ann:wrong@localhost:{tls.port}/cam")
        assert wrong == "its URL has no user and password, or wrong ones (401)"
        plain = problem_of(f"rtsps://ann:{PASSWORD}@localhost:{server.port}/cam")
        assert plain == "its host has ended the connection"
        last = last_of(f"{place}/cam", server.kill)
        assert last and (last.is_cut, last.reason) == (True, "the other side has ended the stream")
        tls.refuse()
        assert problem_of(f"{place}/cam") == "nothing listens at its host and port"


# HLS
class Playlist:
    """Segments of a second, and a playlist that says that there will be more. is_away: it answers 503."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_away = False
        with av.open(
            str(folder / "a.m3u8"), "w", format="hls", options={"hls_time": "1", "hls_list_size": "0"}
        ) as made:
            stream = made.add_stream("mpeg2video", rate=12)
            stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, "yuv420p", 12
            for index in range(60):
                made.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((48, 64, 3), index, np.uint8), "rgb24")))
            made.mux(stream.encode(None))
        self.text = (folder / "a.m3u8").read_text()
        self.write(self.text.replace("#EXT-X-ENDLIST\n", ""))

    def write(self, text: str) -> None:
        (self.folder / "a.m3u8").write_text(text)

    def leave(self) -> None:
        self.is_away = True

    def answer(self, request: BaseHTTPRequestHandler, _: bytes) -> None:
        path = self.folder / request.path.strip("/")
        if self.is_away or not path.exists():
            request.send_error(503 if self.is_away else 404)
            return
        respond(request, path.read_bytes())


@pytest.fixture
def playlist(tmp_path: Path) -> Iterator[tuple[Playlist, str]]:
    made = Playlist(tmp_path)
    with served(made.answer) as url:
        yield made, f"{url}/a.m3u8"


def test_hls_whose_host_has_gone_is_at_its_end(playlist: tuple[Playlist, str]) -> None:
    hls, url = playlist
    last = last_of(url, hls.leave)
    assert last and (last.is_cut, last.reason) == (True, "the other side has ended the stream")


def test_hls_whose_playlist_does_not_grow_gives_no_picture(playlist: tuple[Playlist, str], impatient: None) -> None:
    last = until(lambda: last_of(playlist[1]))
    assert (last.is_cut, last.reason) == (True, SILENT)


def test_hls_without_one_of_its_segments_goes_on_after_it(playlist: tuple[Playlist, str]) -> None:
    hls, url = playlist
    hls.write(hls.text.replace("a2.ts", "gone.ts"))
    with closing(open_video_source(url)[0].frames()) as frames:
        assert sum(frame.read is not None for frame in frames) == 48


def test_hls_leads_to_no_file_of_the_node(playlist: tuple[Playlist, str]) -> None:
    hls, url = playlist
    hls.write(re.sub(r"(?m)^a\d\.ts$", f"file://{hls.folder}/a0.ts", hls.text))
    assert problem_of(url) == "Invalid data found when processing input"


# RTMP
@pytest.mark.parametrize(
    ("fault", "reason"),
    [(FfmpegServer.kill, "the connection was lost"), (FfmpegServer.freeze, "it gave no picture for 3 s")],
    ids=["dies", "stands"],
)
def test_a_server_of_rtmp_that_fails_is_told(
    fault: Callable[[FfmpegServer], None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMIT, 3.0)

    def read() -> LazyFrame | None:
        server.start()
        return last_of(server.url, partial(fault, server))

    with FfmpegServer("rtmp") as server:
        # A busy machine may be silent for as long, also while it is opened.
        last = until(read, lambda last: last is not None and last.reason == reason)
    assert last.is_cut


@pytest.mark.parametrize(
    "reason", ["[ code=403 need auth; authmod=adobe ]", "[ authmod=adobe ] : ?reason=authfailed", ""]
)
def test_a_server_of_rtmp_that_lets_nobody_in_is_told(reason: str) -> None:
    with rtmp_refusal(reason) as url:
        assert problem_of(url.replace("//", f"//ann:{PASSWORD}@") if "authfailed" in reason else url) == REFUSED


def test_a_server_of_something_else_is_said() -> None:
    with served(lambda request, _: request.send_error(404)) as url:
        place = url.partition("://")[2]
        assert problem_of(f"rtmp://{place}/live/camera") == "the other side has ended the stream"
        assert problem_of(f"rtsp://{place}/live/camera") == "Invalid data found when processing input"
        assert problem_of(f"https://{place}/video") == NO_VIDEO


# UDP
def test_a_port_of_udp_that_is_taken_or_of_another_machine_is_said() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        assert problem_of(f"udp://127.0.0.1:{port}") == "another program of this node receives at its port"
    assert problem_of(f"udp://192.0.2.1:{port}") == "this node has no such address to receive at"


@contextmanager
def sending_noise(port: int) -> Iterator[None]:
    """Somebody sends what is no MPEG-TS."""
    ends, noise = threading.Event(), np.random.default_rng(1).bytes(1316)

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not ends.wait(0.02):
                sender.sendto(noise, ("127.0.0.1", port))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def test_udp_without_a_sender_or_with_one_of_something_else_gives_no_picture(impatient: None) -> None:
    port = free_port()
    assert problem_of(f"udp://127.0.0.1:{port}") == SILENT
    with sending_noise(port):
        assert problem_of(f"udp://127.0.0.1:{port}") == SILENT


# pipes
def test_a_pipe_into_which_something_else_is_written_is_no_video(tmp_path: Path) -> None:
    pipe, noise = tmp_path / "door", np.random.default_rng(1).bytes(1 << 20)
    os.mkfifo(pipe)

    def write() -> None:
        with suppress(BrokenPipeError):  # it is read no further
            pipe.write_bytes(noise)

    thread = threading.Thread(target=write)
    thread.start()
    assert problem_of(str(pipe)) == "Invalid data found when processing input"
    thread.join()
