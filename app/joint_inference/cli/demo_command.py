"""`modelmill joint demo`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from app.joint_inference.cli.services import commands
from app.kit.cli.command import EPILOG, CommandFailed

AT = "A Modelmill that runs on this machine and asks for no account: nodes, models and service join it until this ends."


@commands.command(epilog="Needs no root, no container and no other server. " + EPILOG)
def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the web; 0: any that is free.")] = 0,
    once: Annotated[bool, typer.Option("--once", help="Stop after the table: exit code 0 or 1.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave its folder with data and logs, and say where.")] = False,
    at: Annotated[str, typer.Option(metavar="URL", help=AT)] = "",
) -> None:
    """On this machine alone: web, an edge and a cloud node, two models, a service, and what it is worth."""
    # Small matrices: a thread of BLAS per core makes the training ten times slower where cores are shared.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if at:
        from app.joint_inference.cli.demo.attached import demonstrate_at

        raise CommandFailed(demonstrate_at(at))
    from app.joint_inference.cli.demo.show import demonstrate

    raise CommandFailed(demonstrate(port=port, is_once=once, is_kept=keep))
