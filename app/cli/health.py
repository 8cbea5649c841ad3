"""`modelmill health …`: probes for process managers. Exit code 0 if healthy, otherwise 1."""

from __future__ import annotations

import http.client
import json
from typing import Annotated
from urllib.parse import urlsplit

import typer

from app.kit.cli.command import CommandFailed, Exit

app = typer.Typer(no_args_is_help=True, help="Probes for containers: exit code 0 while all is well, otherwise 1.")
WITHIN_S = 4.0


@app.command("web")
def web(
    context: typer.Context,
    ready: Annotated[bool, typer.Option("--ready", help="Also: do Redis and the object store answer?")] = False,
) -> None:
    """Does the web of this host answer? Where it listens is as the settings have it, or --url says it."""
    path = "/readyz" if ready else "/healthz"
    address = urlsplit(context.obj or _own_url())
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=WITHIN_S)
    try:
        connection.request("GET", address.path.rstrip("/") + path)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise _ill(f"{path} answers {answer.status}: {answer.read(2000).decode(errors='replace')}")
    except (OSError, http.client.HTTPException) as error:
        raise _ill(f"the web at {address.netloc} does not answer: {error}") from error
    finally:
        connection.close()


@app.command("worker")
def worker(queue: Annotated[str, typer.Option(help="The worker's queue: onnx, bie, nef or done.")]) -> None:
    """Has a worker of this host and queue given a sign of life lately?

    While Redis is away nobody can tell, and that is no reason to end a worker that may be in the middle of a stage:
    the answer is then 0, with a word on stderr.
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
        raise _ill(f"no worker of queue {queue} on host {settings.node_name} gives a sign of life")


@app.command("training")
def training() -> None:
    """Has a scheduler looked at the cluster within the last minute?

    While Redis is away nobody can tell, and that Ray does not answer is no fault of the scheduler: the answer is then
    0, with a word on stderr.
    """
    import redis

    from app.kit.queue.broker import connect_to_look
    from app.settings import load_settings
    from app.training.service import ClusterPicture

    settings = load_settings()
    if not settings.ray_address:
        raise _ill("training is off here: MODELMILL_RAY_ADDRESS is not set")
    client = connect_to_look(settings.redis_url)
    try:
        views = {name: ClusterPicture(client).get(name) for name in ("", *settings.ray_clusters)}
    except redis.RedisError as error:
        typer.echo(f"modelmill: cannot tell, Redis is away: {error}", err=True)
        return
    finally:
        client.close()
    if views[""] is None:
        raise _ill("nobody has looked at the cluster within the last minute: no worker of queue training, or no pulse")
    for name, view in views.items():
        if view is not None and view.unreachable_since:
            which = f" of cluster {name}" if name else ""
            typer.echo(f"modelmill: Ray{which} does not answer the scheduler since {view.unreachable_since}", err=True)


@app.command("sandbox")
def sandbox() -> None:
    """Of files, network, processes and system calls, what does this kernel keep from a conversion? It tries all four.

    Run it where the workers run: in the same container, as the same user.
    """
    from app.kit.errors import ModelmillError
    from app.kit.sandbox.capabilities import GIVEN_BY, confinement
    from app.kit.sandbox.runner import Sandbox

    tried = Sandbox()
    try:
        confined = confinement(tried)
    except ModelmillError as error:
        raise _ill(f"the sandbox does not work: {error.message}") from error
    finally:
        tried.close()
    held = ", ".join(part for part, is_held in confined.items() if is_held) or "nothing"
    missing = "; ".join(f"{part} (it takes {GIVEN_BY[part]})" for part, is_held in confined.items() if not is_held)
    if missing:
        raise _ill(f"the sandbox holds {held}, but not {missing}: see docs/security.md")
    typer.echo(f"The sandbox holds {held}.")


def _own_url() -> str:
    from app.kit.network.addresses import reachable_url
    from app.settings import load_settings

    settings = load_settings()
    return reachable_url(settings.host, settings.port)


def _ill(problem: str) -> CommandFailed:
    typer.echo(f"modelmill: {problem}", err=True)
    return CommandFailed(Exit.FAILED)
