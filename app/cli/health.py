"""`modelmill health …`: probes for process managers. Exit code 0 if healthy, otherwise 1."""

from __future__ import annotations

import http.client
import json
from typing import Annotated
from urllib.parse import urlsplit

import typer

from app.kit.cli.command import CommandFailed, Exit

app = typer.Typer(no_args_is_help=True, help="Probes for containers: exit code 0 if healthy, otherwise 1.")
WITHIN_S = 4.0


@app.command("web")
def web(
    context: typer.Context,
    ready: Annotated[bool, typer.Option("--ready", help="Also check that Redis and the object store answer.")] = False,
) -> None:
    """Check that the web server of this host answers, at the address of the settings or of --url."""
    path = "/readyz" if ready else "/healthz"
    address = urlsplit(context.obj or _find_own_url())
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=WITHIN_S)
    try:
        connection.request("GET", address.path.rstrip("/") + path)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise _make_failure(f"{path} answers {answer.status}: {answer.read(2000).decode(errors='replace')}")
    except (OSError, http.client.HTTPException) as error:
        raise _make_failure(f"the web at {address.netloc} does not answer: {error}") from error
    finally:
        connection.close()


@app.command("worker")
def worker(queue: Annotated[str, typer.Option(help="Queue of the worker: onnx, bie, nef or done.")]) -> None:
    """Check that a worker of this host and queue has sent a heartbeat recently.

    If Redis does not answer, nothing is known, and a worker in the middle of a stage must not be stopped for that: the
    exit code is 0, with a message on standard error.
    """
    import redis

    from app.kit.queue.broker import connect_to_look
    from app.kit.redis.worker_registry import living_workers
    from app.settings import load_settings

    settings = load_settings()
    client = connect_to_look(settings.redis_url)
    try:
        heartbeats = [json.loads(text) for _, text in living_workers(client)]
    except redis.RedisError as error:
        typer.echo(f"modelmill: cannot tell, Redis is away: {error}", err=True)
        return
    finally:
        client.close()
    if not any(beat["queue"] == queue and beat["host"] == settings.node_name for beat in heartbeats):
        raise _make_failure(f"no worker of queue {queue} on host {settings.node_name} gives a sign of life")


@app.command("training")
def training() -> None:
    """Check that a scheduler has checked the cluster within the last minute.

    If Redis does not answer, nothing is known, and if Ray does not answer, the scheduler is not at fault: the exit code
    is then 0, with a message on standard error.
    """
    import redis

    from app.kit.queue.broker import connect_to_look
    from app.settings import load_settings
    from app.training.service import ClusterPicture

    settings = load_settings()
    if not settings.ray_address:
        raise _make_failure("training is off here: MODELMILL_RAY_ADDRESS is not set")
    client = connect_to_look(settings.redis_url)
    try:
        views = {name: ClusterPicture(client).get(name) for name in ("", *settings.ray_clusters)}
    except redis.RedisError as error:
        typer.echo(f"modelmill: cannot tell, Redis is away: {error}", err=True)
        return
    finally:
        client.close()
    if views[""] is None:
        raise _make_failure(
            "nobody has looked at the cluster within the last minute: no worker of queue training, or no pulse"
        )
    for name, view in views.items():
        if view is not None and view.unreachable_since:
            which = f" of cluster {name}" if name else ""
            typer.echo(f"modelmill: Ray{which} does not answer the scheduler since {view.unreachable_since}", err=True)


@app.command("sandbox")
def sandbox() -> None:
    """Check what this kernel isolates a conversion from: files, network, processes and system calls.

    Run it where the workers run: in the same container, as the same user.
    """
    from app.kit.errors import ModelmillError
    from app.kit.sandbox.capabilities import GIVEN_BY, confinement
    from app.kit.sandbox.runner import Sandbox

    tried = Sandbox()
    try:
        confined = confinement(tried)
    except ModelmillError as error:
        raise _make_failure(f"the sandbox does not work: {error.message}") from error
    finally:
        tried.close()
    held = ", ".join(part for part, is_held in confined.items() if is_held) or "nothing"
    missing = "; ".join(f"{part} (it takes {GIVEN_BY[part]})" for part, is_held in confined.items() if not is_held)
    if missing:
        raise _make_failure(f"the sandbox holds {held}, but not {missing}: see docs/security.md")
    typer.echo(f"The sandbox holds {held}.")


def _find_own_url() -> str:
    from app.kit.network.addresses import reachable_url
    from app.settings import load_settings

    settings = load_settings()
    return reachable_url(settings.host, settings.port)


def _make_failure(problem: str) -> CommandFailed:
    typer.echo(f"modelmill: {problem}", err=True)
    return CommandFailed(Exit.FAILED)
