"""One child of the host: a process that computes, and is ended if it does not answer in time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from app.edge.video.stage_host.child_messages import AnswerHeader, ChildRequest
from app.edge.video.stage_host.errors import StageDied, StageHung
from app.edge.worker_server import log_as
from app.kit.errors import ModelmillError
from app.kit.process.child_protocol import receive_async, send_async
from app.kit.process.spawn import python_module
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject

OPEN_S = 60.0
"""Seconds to open a model."""
Blobs = Sequence[bytes | memoryview]


@dataclass(frozen=True)
class ChildReply:
    """The answer of the process that computes a stage: a header as JSON, and the pictures that belong to it."""

    header: AnswerHeader
    blobs: Sequence[bytes | memoryview]


class ChildProcess:
    """Started at its first call, and again after its end."""

    def __init__(self) -> None:
        self.opened: dict[str, str] = {}
        """Ids of the variants that it has opened, and what runs each."""
        self._process: asyncio.subprocess.Process | None = None
        self._end: socket.socket | None = None
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._end = ours
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *python_module("app.edge.video.stage_host.child", str(theirs.fileno()), *log_as(os.environ)),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    async def check(self) -> None:
        """Forgets a process that has ended while idle, and what it had opened."""
        if self._process is not None and self._process.returncode is not None:
            await self.end()

    async def ask(self, header: ChildRequest, blobs: Blobs = (), *, timeout_s: float) -> ChildReply:
        """Calls the child, after earlier calls.

        Args:
            timeout_s: seconds to wait.

        Raises:
            StageHung, StageDied: The process is gone.
            ModelmillError: What the stage raised.
        """
        async with self._turn:
            return await self._ask(header, blobs, timeout_s)

    async def _ask(self, header: ChildRequest, blobs: Blobs, timeout_s: float) -> ChildReply:
        if self._process is None:
            await self.start()
        assert self._end is not None
        try:
            async with asyncio.timeout(timeout_s):
                await send_async(self._end, header, blobs)
                answer, answer_blobs = await receive_async(self._end)
        except TimeoutError:
            await self.end()
            raise StageHung(f"It has not answered within {timeout_s:g} s.", hint=_SLOW) from None
        except (OSError, EOFError, ValueError) as error:
            code = await self.end(is_over=True)
            raise StageDied(f"Its process has ended ({_describe_exit(code)}).", hint=_DIED) from error
        except asyncio.CancelledError:
            await self.end()
            raise
        if "error" in answer:
            raise error_of(answer["error"])
        return ChildReply(answer, answer_blobs)

    async def end(self, *, is_over: bool = False) -> int | None:
        """Ends the process; the next call starts a fresh one.

        Args:
            is_over: it seems to have ended by itself.

        Returns:
            Its exit code; None if there was no process.
        """
        process, self._process = self._process, None
        end, self._end = self._end, None
        self.opened.clear()
        if end is not None:
            end.close()
        if process is None:
            return None
        if is_over:
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(process.wait(), 1)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


_SLOW = "Use a smaller model or picture, or give the stage a larger timeout_s."
_DIED = "The log of this node's host of stages says more."


def error_of(data: JsonObject) -> ModelmillError:
    """Returns the error that the child raised; StageFailed for a class that only the child knows."""
    status = data.pop("status", 500)
    error = ModelmillError.from_dict(data)
    return error if error.status == status else StageFailed(error.message, hint=error.hint, detail=error.detail)


def _describe_exit(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"code {code}"
