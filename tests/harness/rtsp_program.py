"""An RTSP server of GStreamer with one camera, `/cam`: H.264, a moving ball; and, as a media server, with one path to
which others may push, `/in/door`, and which is played at `/out/door`.

Run by Debian's Python, which has GStreamer's bindings: nothing of the repository is there, nor its packages.
"""

from __future__ import annotations

import argparse
import signal

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtsp", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtsp, GstRtspServer  # noqa: E402  # their versions come first

ROLE = "viewer"
PIPELINE = (
    "( videotestsrc is-live=true pattern=ball ! video/x-raw,width={width},height={height},framerate={fps}/1"
    " ! x264enc tune=zerolatency speed-preset=ultrafast key-int-max={fps} ! valve name=lens"
    " ! rtph264pay name=pay0 pt=96 config-interval=1 {sound} )"
)
SOUND = "audiotestsrc is-live=true ! alawenc ! rtppcmapay name=pay1 pt=8"


RTP = "application/x-rtp,media=video,clock-rate=90000,encoding-name=H264,payload=96"
PARSED = "h264parse config-interval=-1 ! rtph264pay pt=96 config-interval=-1"
TAKEN = "( rtph264depay name=depay0 ! {parsed} ! udpsink host=127.0.0.1 port={port} sync=false async=false )"
PLAYED = '( udpsrc address=127.0.0.1 port={port} caps="{rtp}" ! rtph264depay ! {parsed} name=pay0 )'


class Factory(GstRtspServer.RTSPMediaFactory):
    """Makes the camera's pictures for those who watch, once for all of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self._options, self._lens = options, None
        self.set_shared(True)

    def do_create_element(self, url: GstRtsp.RTSPUrl) -> Gst.Element:
        pipeline = Gst.parse_launch(PIPELINE.format(**{**vars(self._options), "sound": SOUND * self._options.sound}))
        self._lens = pipeline.get_by_name("lens")
        return pipeline

    def cover_lens(self) -> bool:
        """The connection stays, and there are no more pictures."""
        if self._lens is not None:
            self._lens.set_property("drop", True)
        return GLib.SOURCE_CONTINUE


def demand_password(server: GstRtspServer.RTSPServer, factory: Factory, credentials: str, scheme: str) -> None:
    user, _, password = credentials.partition(":")
    token = GstRtspServer.RTSPToken()
    token.set_string(GstRtspServer.RTSP_TOKEN_MEDIA_FACTORY_ROLE, ROLE)
    auth = GstRtspServer.RTSPAuth()
    if scheme == "basic":
        auth.add_basic(GstRtspServer.RTSPAuth.make_basic(user, password), token)
    else:
        auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
        auth.add_digest(user, password, token)
    server.set_auth(auth)
    permissions = GstRtspServer.RTSPPermissions()
    permissions.add_role(ROLE)
    for permission in (
        GstRtspServer.RTSP_PERM_MEDIA_FACTORY_ACCESS,
        GstRtspServer.RTSP_PERM_MEDIA_FACTORY_CONSTRUCT,
    ):
        permissions.add_permission_for_role(ROLE, permission, True)
    factory.set_permissions(permissions)


def relayed(udp_port: int) -> dict[str, GstRtspServer.RTSPMediaFactory]:
    """By path: one that takes a pushed stream, and one that plays it, with a local port between them."""
    taken, played = GstRtspServer.RTSPMediaFactory(), GstRtspServer.RTSPMediaFactory()
    taken.set_launch(TAKEN.format(parsed=PARSED, port=udp_port))
    taken.set_transport_mode(GstRtspServer.RTSPTransportMode.RECORD)
    taken.set_latency(0)
    played.set_launch(PLAYED.format(parsed=PARSED, port=udp_port, rtp=RTP))
    played.set_shared(True)
    return {"/in/door": taken, "/out/door": played}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port")
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--height", type=int, default=96)
    parser.add_argument("--fps", type=int, default=20)
    parser.add_argument("--credentials", default="")
    parser.add_argument("--scheme", default="basic", choices=("basic", "digest"))
    parser.add_argument("--udp", action="store_true")
    parser.add_argument("--tcp", action="store_true")
    parser.add_argument("--sound", action="store_true")
    parser.add_argument("--relay", type=int, metavar="UDP_PORT")
    options = parser.parse_args()
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(options.port)
    factory = Factory(options)
    if options.udp:
        factory.set_protocols(GstRtsp.RTSPLowerTrans.UDP)
    if options.tcp:
        factory.set_protocols(GstRtsp.RTSPLowerTrans.TCP)
    if options.credentials:
        demand_password(server, factory, options.credentials, options.scheme)
    server.get_mount_points().add_factory("/cam", factory)
    if options.relay:
        for path, relay in relayed(options.relay).items():
            server.get_mount_points().add_factory(path, relay)
            if options.credentials:
                relay.set_permissions(factory.get_permissions())
        server.get_thread_pool().set_max_threads(-1)  # a viewer's first request waits for what another connection sends
    GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, signal.SIGUSR1, factory.cover_lens)
    if not server.attach(None):
        raise SystemExit(f"The port {options.port} cannot be had.")
    print("ready", flush=True)
    GLib.MainLoop().run()


main()
