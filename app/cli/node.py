"""`modelmill node`: the agent of this machine, until it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.edge.agent import options as given
from app.inference.predictor_options import ExecutionProvider
from app.kit.cli.command import CannotStart
from app.kit.cli.service_options import token as admin_token
from app.nodes.cameras import video_of
from app.nodes.model import Side, TlsMode

NODE_TOKEN = "MODELMILL_NODE_TOKEN"  # noqa: S105  # the variable's name


def node(
    name: Annotated[str, typer.Option(help="Name of this node, as services refer to it.")],
    side: Annotated[Side, typer.Option(help="What may run on this node; host: both.")] = Side.EDGE,
    cloud: Annotated[str, typer.Option(metavar="URL", help="Address of the web server.")] = "ws://127.0.0.1:8080",
    token: Annotated[
        str,
        typer.Option(
            envvar=NODE_TOKEN,
            show_envvar=True,
            help="Token of this node. Other users of this machine can see it; --token-file is safer.",
        ),
    ] = "",
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="File with the token of this node.")] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of the agent's own server; port 0: any free port.")
    ] = given.DEFAULT_LISTEN,
    bind: Annotated[str, typer.Option(help="Address that workers listen on.")] = "127.0.0.1",
    address: Annotated[
        str | None, typer.Option(help="Address at which others reach the workers; default: that of --bind.")
    ] = None,
    scripts: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Folder with programs of users that may run on this node. Can be repeated."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH|URL",
            help="Source that services may open: a folder with everything in it, or a URL, which may "
            "contain *. Can be repeated.",
        ),
    ] = None,
    discover: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Search for ONVIF cameras on the network in which this machine has this address. The page of the "
            "node lists them.",
        ),
    ] = "",
    media_server: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="RTSP server, such as MediaMTX, to which video jobs may push their pictures, such as "
            "rtsp://user:password@127.0.0.1:8554/modelmill.",
            envvar="MODELMILL_NODE_MEDIA_SERVER",
        ),
    ] = "",
    sink_networks: Annotated[
        str,
        typer.Option(
            metavar="NETWORKS",
            help="Private networks to which sinks that this node serves may lead, such as 192.168.1.0/24.",
        ),
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Environment variable that is passed to the workers. Can be repeated."),
    ] = None,
    video: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=SOURCE",
            help="A video of this node: a path or a URL, with or without its type. Can be repeated; their ids are "
            "0, 1 and so on.",
        ),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the data of this node.")] = None,
    cpus: Annotated[str, typer.Option(help="CPUs that workers may use, such as 0,1 or 0-3; default: all.")] = "",
    provider: Annotated[
        ExecutionProvider,
        typer.Option(help="Execution provider of ONNX Runtime on this node, unless a service or stage has its own."),
    ] = ExecutionProvider.AUTO,
    stop_workers: Annotated[
        bool, typer.Option("--stop-workers", help="Stop the workers on SIGTERM, too. Ctrl-C always stops them.")
    ] = False,
    tls: Annotated[
        TlsMode, typer.Option(help="Encrypt connections between nodes; auto: if others can reach the workers.")
    ] = TlsMode.AUTO,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own private key for these connections, PEM.")
    ] = None,
    tls_certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate of this key, PEM; default: the web server issues one."),
    ] = None,
    tls_authorities: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The certificate authorities of the other nodes, PEM, with revocation lists if there are any.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take over a name that is already registered.")] = False,
) -> None:
    """Run the agent of a node on this machine. It runs what the web server orders.

    Without a token, the node is registered first: with the token of an administrator in MODELMILL_TOKEN, or without any
    on the machine of the web server.
    """
    from app.bootstrap.edge import run_node
    from app.kit.observability import logs
    from app.settings import load_settings

    host, port = given.listen_address(listen)
    settings = load_settings()
    options = given.AgentOptions(
        name=given.check_name(name),
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
        media_server=given.media_server(media_server),
        sink_networks=given.networks(sink_networks),
        passed=tuple(env or ()),
        videos=tuple(map(video_of, video or ())),
        provider=provider,
        stops_workers=stop_workers,
        replace=replace,
        tls=tls,
        tls_files=given.tls_files(tls_key, tls_certificate, tls_authorities),
    )
    logs.configure(settings.log_format, settings.log_level)
    run_node(options)


def _read(file: Path) -> str:
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotStart(f"the token cannot be read from {file}: {error}") from error
    if not token:
        raise CannotStart(f"there is no token in {file}")
    return token
