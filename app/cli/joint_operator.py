"""`modelmill joint operator`: it works on the store, not on the service."""

from __future__ import annotations

import importlib.util
from contextlib import closing
from typing import Annotated

import typer

from app.kit.cli.command import CannotStart


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
    from app.bootstrap.container import assemble
    from app.joint_inference.k8s_operator.handlers import run
    from app.joint_inference.k8s_operator.mirror import Mirror
    from app.settings import load_settings

    with closing(assemble(load_settings())) as container:
        container.accounts.users.get(user)
        container.database.sealer.check()
        run(Mirror(container.joint.services, user), namespaces=namespace or (), liveness=liveness)
