"""The process: `python -m app.training.tensorboard.program SOCKET FOLDER LIFELINE PREFIX IDLE_S HOMES`

SOCKET, FOLDER and LIFELINE are inherited descriptors: the socket it listens on, the folder with the event files, and a
pipe that ends with the process that started it. Programs of users wrote these files, so it is confined first: it reads
FOLDER, Python and its libraries, nothing else of HOMES, and opens no socket.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from app.kit.sandbox import kernel, landlock, seccomp
from app.kit.sandbox.paths import SandboxPaths, of_python

NOT_CONFINED = 3
"""Its exit code where the kernel has no Landlock."""
MEMORY_BYTES = 2 << 30
RELOAD_S = 15
LOOK_S = 1.0
NO_HOST = "unix://"
WITHOUT_TENSORFLOW = "tensorboard.compat.notf"
"""The module by whose existence TensorBoard tells that it is to use its own replacement."""


def main() -> None:
    listening, folder, lifeline = map(int, sys.argv[1:4])
    prefix, idle_s, homes = sys.argv[4], float(sys.argv[5]), sys.argv[6]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.fchdir(folder)
    server = _make_server(listening)
    _confine(homes)  # before there are threads, which would stay as they are
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    _serve(server, prefix, idle_s)


def _confine(homes: str) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    places = of_python().beside([homes]) + SandboxPaths((".",))
    kernel.drop_rights()
    if not landlock.restrict(places):
        os._exit(NOT_CONFINED)
    seccomp.restrict()


def _make_server(listening: int) -> Any:
    """Made before the process is confined: Werkzeug opens a socket of its own even if it is given one."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):  # type: ignore[misc]  # mypy does not look into Werkzeug
        def log(self, type: str, message: str, *args: Any) -> None:
            pass

    server = make_server(NO_HOST, 0, _answer_unavailable, threaded=True, request_handler=Quiet, fd=listening)
    socket.close(listening)
    return server


def _answer_unavailable(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    start("503 Service Unavailable", [])
    return []


def _serve(server: Any, prefix: str, idle_s: float) -> None:
    """Until nobody has looked for a while."""
    sys.modules[WITHOUT_TENSORFLOW] = ModuleType(WITHOUT_TENSORFLOW)  # it would be loaded where it is installed
    from tensorboard import default, program
    from tensorboard.compat.tensorflow_stub.io import gfile

    class OwnFiles(gfile.LocalFileSystem):  # type: ignore[misc]  # mypy does not look into TensorBoard
        def listdir(self, dirname: str) -> list[str]:
            """No link is followed, as with all files of users; one that leads out would stop what reads its folder."""
            return [name for name in super().listdir(dirname) if not Path(dirname, name).is_symlink()]

    gfile.register_filesystem("", OwnFiles())
    last = time.monotonic()

    class Server(program.TensorBoardServer):  # type: ignore[misc]  # mypy does not look into TensorBoard
        def __init__(self, app: WSGIApplication, _: Any) -> None:
            def noted(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
                nonlocal last
                last = time.monotonic()
                return app(environ, start)

            server.app = noted

        def serve_forever(self) -> None:
            server.serve_forever()

        def get_url(self) -> str:
            return NO_HOST

    # the static ones alone: the projector, which is not among them, reads files that a file of the folder names
    board = program.TensorBoard(plugins=default.get_static_plugins(), server_class=Server)
    flags = ["--logdir=.", f"--path_prefix={prefix}", "--load_fast=false", f"--reload_interval={RELOAD_S}"]
    board.configure(["tensorboard", *flags])
    board.launch()
    while time.monotonic() - last < idle_s:
        time.sleep(LOOK_S)
    os._exit(0)


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(0)


if __name__ == "__main__":
    main()
