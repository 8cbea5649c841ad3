"""`modelmill node`: the agent of this machine, until it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.edge.agent import options as given
from app.inference.prediction import ExecutionProvider
from app.kit.cli.command import CannotStart
from app.kit.cli.service_options import token as admin_token
from app.nodes.model import Side, TlsMode

NODE_TOKEN = "MODELMILL_NODE_TOKEN"  # noqa: S105  # the variable's name


def node(
    name: Annotated[str, typer.Option(help="Name of this node, as services call it.")],
    side: Annotated[Side, typer.Option(help="What may run here; host: both.")] = Side.EDGE,
    cloud: Annotated[str, typer.Option(metavar="URL", help="Address of the web.")] = "ws://127.0.0.1:8080",
    token: Annotated[
        str,
        typer.Option(envvar=NODE_TOKEN, show_envvar=True, help="Token of this node. Others on this machine see it."),
    ] = "",
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A file that holds it.")] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The agent's own server; port 0: any that is free.")
    ] = given.DEFAULT_LISTEN,
    bind: Annotated[str, typer.Option(help="Address that workers listen on.")] = "127.0.0.1",
    address: Annotated[str | None, typer.Option(help="Address that others reach them by; default: as bind.")] = None,
    scripts: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Folder with users' programs that may run here; repeatable."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH|URL", help="What services may open: a folder with all below it, or a URL with *; repeatable."
        ),
    ] = None,
    discover: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Look for ONVIF cameras on the network on which this machine has that address; its page lists them.",
        ),
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A variable of this environment that workers get, too; repeatable."),
    ] = None,
    video: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=SOURCE",
            help="A video of this node, a path or URL; the type may be left out; repeatable: their ids are 0, 1, …",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where this node keeps what it must keep.")
    ] = None,
    cpus: Annotated[str, typer.Option(help="Only these CPUs, as 0,1 or 0-3.")] = "",
    provider: Annotated[
        ExecutionProvider,
        typer.Option(help="What onnxruntime computes with here, unless a service or stage has its own provider."),
    ] = ExecutionProvider.AUTO,
    stop_workers: Annotated[
        bool, typer.Option("--stop-workers", help="SIGTERM ends the workers, too; Ctrl-C always does.")
    ] = False,
    tls: Annotated[
        TlsMode, typer.Option(help="Encrypt links to other nodes; auto: where others can reach workers.")
    ] = TlsMode.AUTO,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="A key of your own for them, PEM.")] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its certificate; without one the web server issues it.")
    ] = None,
    tls_authorities: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who certifies the other nodes, with revocations if there are.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take over a name that is registered already.")] = False,
) -> None:
    """Run services on this machine as the web says; register it first where need be.

    Without a token it registers itself: with MODELMILL_TOKEN, an administrator's, or with none on the web's machine.
    """
    from app.bootstrap.edge import run_node
    from app.kit.observability import logs
    from app.settings import load_settings

    host, port = given.listening(listen)
    settings = load_settings()
    options = given.AgentOptions(
        name=given.checked_name(name),
        side=side,
        cloud=given.web_url(cloud),
        data=(data_dir or settings.data_dir / "nodes" / name).absolute(),
        token=_read(token_file) if token_file else token.strip(),
        admin_token=admin_token(),
        listen_host=host,
        listen_port=port,
        bind=bind,
        address=given.reachable_address(bind, address),
        scripts=tuple(folder.absolute() for folder in scripts or ()),
        cpus=given.cpu_numbers(cpus),
        sources=tuple(map(given.source, source or ())),
        discover=given.interface(discover),
        passed=tuple(env or ()),
        videos=tuple(map(given.video, video or ())),
        provider=provider,
        stops_workers=stop_workers,
        replace=replace,
        tls=tls,
        tls_files=given.tls_files(tls_key, tls_certificate, tls_authorities),
    )
    logs.configure(settings.log_format, settings.log_level)
    run_node(options)


def _read(file: Path) -> str:
    """Raises CannotStart."""
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotStart(f"the token cannot be read from {file}: {error}") from error
    if not token:
        raise CannotStart(f"there is no token in {file}")
    return token
