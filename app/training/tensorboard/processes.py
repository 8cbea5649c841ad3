"""Starts, finds and ends the TensorBoards of this web server."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from app.kit.process.spawn import python_module, spawn
from app.kit.sandbox.runner import child_environment
from app.training.errors import BoardsTooMany, BoardUnavailable
from app.training.tensorboard.program import NOT_CONFINED

if TYPE_CHECKING:
    import httpx

LEAST_IDLE_S = 60.0
"""One that was used more recently is not ended for another."""
TIMEOUT_S = 60.0
ENDED_S = 0.2
"""A process whose socket has closed has ended by then."""
BACKLOG = 64
FORWARDED = ("accept", "content-type")
MOST_BYTES = 64 << 20
TOO_MUCH = "TensorBoard answers with too much."


@dataclass(frozen=True)
class BoardAnswer:
    """What TensorBoard answers."""

    status: int
    content: bytes
    media_type: str
    policy: str
    """Its own Content-Security-Policy."""


@dataclass
class Board:
    """The TensorBoard of a task."""

    process: subprocess.Popen[bytes]
    socket: Path
    client: httpx.AsyncClient
    place: tuple[int, int]
    """Device and inode of its folder."""
    used_at: float = field(default_factory=time.monotonic)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> BoardAnswer | None:
        """None: it has ended meanwhile.

        Args:
            method: GET or POST.
            target: Path and query.
            headers: Of the request of the browser: only what the answer depends on goes on.
            body: Of the request.

        Raises:
            BoardUnavailable: It does not answer, or answers too much.
        """
        import httpx

        kept = {name: headers[name] for name in FORWARDED if name in headers}
        try:
            async with self.client.stream(method, target, headers=kept, content=body) as answer:
                content = bytearray()
                async for chunk in answer.aiter_bytes():
                    content += chunk
                    if len(content) > MOST_BYTES:
                        raise BoardUnavailable(TOO_MUCH)
        except httpx.HTTPError as error:
            await asyncio.sleep(ENDED_S)
            if self.is_running:
                raise BoardUnavailable(f"TensorBoard does not answer: {error or type(error).__name__}.") from None
            if self.process.returncode == NOT_CONFINED:
                raise BoardUnavailable(
                    "TensorBoard is not started, because the kernel of the web server cannot confine it.",
                    hint="It reads files that programs wrote, and needs Linux with Landlock.",
                ) from None
            return None
        media_type = answer.headers.get("content-type", "application/octet-stream")
        policy = answer.headers.get("content-security-policy", "")
        return BoardAnswer(answer.status_code, bytes(content), media_type, policy)


class TensorBoards:
    """May be used by several threads. Starts nothing yet."""

    def __init__(self, homes: Path, *, most: int, idle_s: float) -> None:
        """
        Args:
            homes: The folder of all data homes, of which a process reads the folder of its task alone.
            most: How many may run at once; 0: none.
            idle_s: After so many seconds without a request one ends.
        """
        self._homes = homes
        self._most = most
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._boards: dict[str, Board] = {}
        self._lifeline: tuple[int, int] | None = None
        self._folder: Path | None = None

    def require_offered(self) -> None:
        """Checks that boards are offered.

        Raises:
            BoardUnavailable: TensorBoard is not installed, or not offered.
        """
        if not self._most:
            raise BoardUnavailable(
                "This installation offers no TensorBoard.", hint="The page Metrics shows the same curves."
            )
        if importlib.util.find_spec("tensorboard") is None:
            raise BoardUnavailable(
                "TensorBoard is not installed on the web server.",
                hint="The operator installs it there: pip install 'modelmill[tensorboard]'.",
            )

    def ensure(self, task_id: str, folder: int, prefix: str) -> Board:
        """The running TensorBoard of a task, started if there is none, or one of another folder, as of the attempt
        before.

        Args:
            task_id: Of the task.
            folder: A descriptor of the folder with its event files.
            prefix: The path at which browsers reach it.

        Raises:
            BoardUnavailable: It cannot be started.
            BoardsTooMany: All of those that may run are in use.
        """
        self.require_offered()
        with self._lock:
            board = self._boards.get(task_id)
            if board is not None and board.place != _place(folder):
                self._end(task_id)
                board = None
            if board is None or not board.is_running:
                self._forget_ended()
                self._make_room()
                board = self._boards[task_id] = self._start(folder, prefix)
            board.used_at = time.monotonic()
            return board

    def close(self) -> None:
        """Ends all."""
        with self._lock:
            for task_id in list(self._boards):
                self._end(task_id)
            for descriptor in self._lifeline or ():
                os.close(descriptor)
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._lifeline = self._folder = None

    def _forget_ended(self) -> None:
        for task_id in [task_id for task_id, board in self._boards.items() if not board.is_running]:
            self._end(task_id)

    def _make_room(self) -> None:
        if len(self._boards) < self._most:
            return
        longest = min(self._boards, key=lambda task_id: self._boards[task_id].used_at)
        if time.monotonic() - self._boards[longest].used_at < LEAST_IDLE_S:
            raise BoardsTooMany(
                f"All {self._most} TensorBoards of this web server are in use.",
                hint="Close the page of another one, and try again in a minute.",
            )
        self._end(longest)

    def _end(self, task_id: str) -> None:
        board = self._boards.pop(task_id)
        board.process.kill()
        board.process.wait()
        board.socket.unlink(missing_ok=True)

    def _start(self, folder: int, prefix: str) -> Board:
        import httpx  # imported late because it loads much

        if self._lifeline is None or self._folder is None:
            self._lifeline = os.pipe2(os.O_CLOEXEC)
            self._folder = Path(tempfile.mkdtemp(prefix="mm-board-"))  # paths of sockets must be short
        path = self._folder / f"{time.monotonic_ns():x}"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen(BACKLOG)
            descriptors = (listening.fileno(), folder, self._lifeline[0])
            command = python_module(
                "app.training.tensorboard.program", *map(str, descriptors), prefix, str(self._idle_s), str(self._homes)
            )
            try:
                process = spawn(command, env=child_environment(os.environ), pass_fds=descriptors)
            except OSError as error:
                raise BoardUnavailable(f"TensorBoard cannot be started: {error.strerror}.") from None
        transport = httpx.AsyncHTTPTransport(uds=str(path), verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        client = httpx.AsyncClient(transport=transport, timeout=TIMEOUT_S, base_url="http://board")
        return Board(process, path, client, _place(folder))


def _place(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino
