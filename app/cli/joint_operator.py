"""`modelmill joint operator`: it works on the store, not on the service."""

from __future__ import annotations

import importlib.util
from contextlib import closing
from typing import Annotated

import typer

from app.kit.cli.command import CannotStart


def operator(
    user: Annotated[str, typer.Option(metavar="NAME", help="User who owns the services of the cluster.")],
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Watch only this namespace. Can be repeated.")
    ] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Watch all namespaces.")] = False,
    liveness: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address at which probes are answered, such as http://0.0.0.0:8081/healthz."),
    ] = None,
) -> None:
    """Run the JointInferenceServices of a Kubernetes cluster in this installation, and write their status back. Run
    exactly one operator."""
    if bool(namespace) == all_namespaces:
        raise CannotStart("the operator must know where to look", hint="Give --namespace NAME, or --all-namespaces.")
    if importlib.util.find_spec("kopf") is None:
        raise CannotStart("kopf is not installed", hint="Install the extra: pip install 'modelmill[k8s]'.")
    from app.bootstrap.container import assemble
    from app.joint_inference.k8s_operator.handlers import run
    from app.joint_inference.k8s_operator.mirror import Mirror
    from app.settings import load_settings

    with closing(assemble(load_settings())) as container:
        container.accounts.users.get(user)
        container.database.sealer.check()
        run(Mirror(container.joint.services, user), namespaces=namespace or (), liveness=liveness)
