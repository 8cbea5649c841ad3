"""The commands about recordings of jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record
from app.kit.clock import to_text
from app.kit.errors import BadRequest
from app.video.cli.command_group import Uid, commands

if TYPE_CHECKING:
    from app.video.client import VideoClient


@commands.command()
def recording(client: VideoClient, job: Uid, as_json: AsJson = False) -> None:
    """How far the recording of a job goes back, its size, and what it costs its node."""
    record = client.recording(job)
    span = f"{record['begins_at']} to {record['ends_at']}" if record["begins_at"] else "nothing yet"
    text = f"{span}, {record['size_bytes'] / 1e6:.1f} MB, {record['core_share']:.1%} of a core"
    problem = f"\nNothing is recorded now: {record['problem']}." if record["problem"] else ""
    print_record(record, as_json=as_json, text=text + problem)


@commands.command()
def record(
    client: VideoClient,
    job: Uid,
    hours: Annotated[float, typer.Option(metavar="HOURS", min=0, help="What is older is deleted.")] = 24.0,
    off: Annotated[bool, typer.Option("--off", help="No longer; what was recorded is deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Record a running job from now on, with what was detected drawn into it."""
    record = client.record(job, None if off else {"hours": hours})
    text = f"{job} is no longer recorded." if off else f"{job} is recorded: the newest {hours:g} h."
    print_record(record, text, as_json=as_json)


@commands.command()
def clip(
    client: VideoClient,
    job: Uid,
    event: Annotated[int | None, typer.Option(metavar="NUMBER", help="The clip around this event.")] = None,
    last: Annotated[float | None, typer.Option(metavar="SECONDS", min=1, max=600, help="The newest seconds.")] = None,
    since: Annotated[str, typer.Option(metavar="TIME", help="As 2026-11-20T08:00:00Z.")] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="At most ten minutes later.")] = "",
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to put it.")] = Path("clip.mp4"),
    as_json: AsJson = False,
) -> None:
    """Save a clip of a job that is recorded, with what was detected drawn into it."""
    if last is not None:
        now = datetime.now(UTC)
        since, until = to_text(now - timedelta(seconds=last)), to_text(now)
    if event is None and not (since and until):
        raise BadRequest("Of which time?", hint="Give --event, --last, or --since and --until.")
    pieces = client.clip(job, event_id=event, since=since, until=until)
    first = next(pieces, b"")
    with out.open("wb") as file:
        file.write(first)
        file.writelines(pieces)
    size = out.stat().st_size
    print_record({"file": str(out), "size_bytes": size}, f"{out} ({size / 1e6:.1f} MB)", as_json=as_json)
