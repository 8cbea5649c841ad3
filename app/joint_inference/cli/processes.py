"""The commands that run something until Ctrl-C: the demonstration and the operator."""

from __future__ import annotations

import importlib.util
import os
from typing import Annotated

import typer

from app.joint_inference.cli.services import commands
from app.kit.cli.command import EPILOG, CannotStart, CommandFailed


@commands.command(epilog="Needs no root, no container and no other server. " + EPILOG)
def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the web; 0: any that is free.")] = 0,
    once: Annotated[bool, typer.Option("--once", help="Stop after the table: exit code 0 or 1.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave its folder with data and logs, and say where.")] = False,
) -> None:
    """On this machine alone: web, an edge and a cloud node, two models, a service, and what it is worth."""
    # Small matrices: a thread of BLAS per core makes the training ten times slower where cores are shared.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from app.joint_inference.cli.demo.show import demonstrate

    raise CommandFailed(demonstrate(port=port, is_once=once, is_kept=keep))


@commands.command()
def operator(
    user: Annotated[str, typer.Option(metavar="NAME", help="Whose the services of the cluster are, here.")],
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Look at this one only; may be given several times.")
    ] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look at all of them.")] = False,
    liveness: Annotated[
        str | None, typer.Option(metavar="URL", help="Where to answer probes, as http://0.0.0.0:8081/healthz.")
    ] = None,
) -> None:
    """Run the JointInferenceServices of a Kubernetes cluster here, and write their status back. Run exactly one."""
    if bool(namespace) == all_namespaces:
        raise CannotStart("the operator must know where to look", hint="Give --namespace NAME, or --all-namespaces.")
    if importlib.util.find_spec("kopf") is None:
        raise CannotStart("kopf is not installed", hint="Install the extra: pip install 'modelmill[k8s]'.")
    from app.joint_inference.k8s_operator.process import run

    run(user, namespaces=namespace or (), liveness=liveness)
