"""The group of the commands about video, and how each of them reaches the web."""

from __future__ import annotations

from typing import Annotated

import typer

from app.kit.cli.service_commands import ServiceCommands

Uid = Annotated[str, typer.Argument(metavar="JOB", help="Uid of the job, such as GLOBAL_ID_1.SUB_ID_1.")]
commands = ServiceCommands(
    "app.video.client:VideoClient", help="Video jobs: stages on the frames of a stream, on edge and cloud nodes."
)


def path_of(uid: str) -> str:
    """Of a job in the API."""
    from app.video.client import path_of

    return path_of(uid)


def comma_separated(text: str | None) -> list[str]:
    """'a,b' → [a, b]."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def number_or_text(video_id: str) -> int | str:
    return int(video_id) if video_id.isdecimal() and len(video_id) < 5 else video_id
