"""Follows a job at a terminal until it has ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from app.kit.cli.api_client import WaitedEnough
from app.kit.cli.command import CommandFailed, Exit, Unreachable
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.video.client import VideoClient

POLL_S = 1.0
GIVE_UP_S = 60.0
"""The web may be unreachable for so long."""


def follow(
    client: VideoClient,
    uid: str,
    show: Callable[[JsonObject], str],
    *,
    is_quiet: bool = False,
    timeout_s: float | None = None,
) -> JsonObject:
    """Prints a job at each change until it has ended.

    Args:
        show: The text to be printed of a record; the same text is printed once.
        is_quiet: Print to stderr, because stdout is to be JSON.
        timeout_s: Wait no longer.

    Returns:
        Its last record.

    Raises:
        CommandFailed: Ctrl-C; the job goes on.
        WaitedEnough: It has not ended within timeout_s.
        Unreachable: The web has not answered for GIVE_UP_S.
    """
    shown, heard_at, begun_at = "", time.monotonic(), time.monotonic()
    try:
        while True:
            try:
                record = client.job(uid)
                heard_at = time.monotonic()
                if (text := show(record)) != shown:
                    shown = text
                    typer.echo(text, err=is_quiet)
                if record["state"] == "DONE":
                    return record
            except Unreachable:
                if not shown or time.monotonic() - heard_at > GIVE_UP_S:
                    raise
            if timeout_s is not None and time.monotonic() - begun_at > timeout_s:
                raise WaitedEnough(
                    "the job has not ended within the given time", hint=f"It goes on; see `modelmill video show {uid}`."
                )
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        typer.echo(f"The job goes on. End it with `modelmill video cancel {uid}`.", err=True)
        raise CommandFailed(Exit.CANCELLED) from None


def exit_of(record: JsonObject) -> Exit:
    return {"finished": Exit.OK, "cancelled": Exit.CANCELLED}.get(record["ending"] or "", Exit.FAILED)


def as_line(record: JsonObject) -> str:
    return json.dumps(record)
