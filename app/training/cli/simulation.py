"""The command that compares orders of the queue on a trace. It asks no service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.document_files import read_text
from app.kit.errors import BadRequest

if TYPE_CHECKING:
    from app.training.model.task import Priority


def simulate(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE.CSV",
            help="CSV file with the columns user, submit_s, gpus, duration_s and others; -: standard input.",
        ),
    ],
    nodes: Annotated[int, typer.Option(min=1, max=10_000, help="Of the cluster.")] = 4,
    gpus: Annotated[int, typer.Option(min=1, max=64, help="Of each node.")] = 8,
    cpus: Annotated[int, typer.Option(min=0, max=10_000, help="Of each node; 0: CPUs are not counted.")] = 0,
    preempt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="low|normal", help="Priority of tasks that are preempted by more urgent ones. Can be repeated."
        ),
    ] = None,
    checkpoint_s: Annotated[float, typer.Option(min=1, help="Seconds between two checkpoints of a task.")] = 1800,
) -> None:
    """Simulate each order of the queue on a trace of tasks: waiting times, utilization, fairness."""
    from rich.console import Console
    from rich.table import Table

    from app.training.model.queue_order import QueuePolicy
    from app.training.model.simulation import Cluster, simulate
    from app.training.model.trace import read_trace

    tasks, cluster = read_trace(read_text(trace)), Cluster(nodes, gpus, cpus)
    preempted = [_parse_priority(name) for name in preempt or ()]
    table = Table(box=None, pad_edge=False)
    for name in (
        "order",
        "wait p50",
        "wait p95",
        "utilization",
        "share error",
        "makespan",
        *(["went ahead"] if cpus else []),
        *(["gave way"] if preempted else []),
    ):
        table.add_column(name, justify="left" if name == "order" else "right")
    impossible = 0
    for policy in QueuePolicy:
        for does_backfill in (False, True):
            result = simulate(
                tasks, cluster, policy, does_backfill=does_backfill, preempted=preempted, checkpoint_s=checkpoint_s
            )
            impossible = result.impossible
            table.add_row(
                policy.value + (" + backfill" if does_backfill else ""),
                f"{result.wait_p50_s:.0f} s",
                f"{result.wait_p95_s:.0f} s",
                f"{result.utilization:.1%}",
                f"{result.share_error:.3f}",
                f"{result.makespan_s:.0f} s",
                *([str(result.passed)] if cpus else []),
                *([str(result.preemptions)] if preempted else []),
            )
    Console().print(table)
    typer.echo(f"{len(tasks) - impossible} tasks on {nodes} nodes of {gpus} GPUs.")
    if impossible:
        typer.echo(f"{impossible} ask for more than the cluster has and were left out.")


def _parse_priority(name: str) -> Priority:
    from app.training.model.task import Priority

    if name not in ("low", "normal"):
        raise BadRequest(f"--preempt {name}: no such priority gives way", hint="Name low, normal or both.")
    return Priority(name)
