"""A job as somebody at a terminal sees it, until it has ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from app.kit.cli.api_client import WaitedEnough
from app.kit.cli.command import CommandFailed, Exit, Unreachable

if TYPE_CHECKING:
    from app.video.client import Client

POLL_S = 1.0
PATIENCE_S = 60.0
"""How long the service may be away while somebody waits."""
Record = dict[str, Any]


def follow(
    client: Client, uid: str, show: Callable[[Record], str], *, is_quiet: bool = False, timeout_s: float | None = None
) -> Record:
    """Tell what `show` makes of it, once for each change, until it has ended: its last record.

    is_quiet: to stderr, for stdout is to be JSON. Raises Ended at Ctrl-C (the job goes on), WaitedEnough, Unreachable.
    """
    said, heard_at, begun_at = "", time.monotonic(), time.monotonic()
    try:
        while True:
            try:
                record = client.job(uid)
                heard_at = time.monotonic()
                if (text := show(record)) != said:
                    said = text
                    typer.echo(text, err=is_quiet)
                if record["state"] == "DONE":
                    return record
            except Unreachable:
                if not said or time.monotonic() - heard_at > PATIENCE_S:
                    raise
            if timeout_s is not None and time.monotonic() - begun_at > timeout_s:
                raise WaitedEnough(
                    "the job has not ended within the given time",
                    hint=f"It goes on; see `modelmill video show {uid}`.",
                )
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        typer.echo(f"The job goes on. End it with `modelmill video cancel {uid}`.", err=True)
        raise CommandFailed(Exit.CANCELLED) from None


def exit_of(record: Record) -> Exit:
    return {"finished": Exit.OK, "cancelled": Exit.CANCELLED}.get(record["ending"] or "", Exit.FAILED)


def as_line(record: Record) -> str:
    return json.dumps(record)
