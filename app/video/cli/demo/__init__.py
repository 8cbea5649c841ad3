"""`modelmill video demo`: a running job, with rules and a sink. `modelmill video pseudo`: edge and cloud on one
machine, with the requirement's ports. Both import heavy modules late."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.kit.cli.command import CommandFailed, Exit
from app.kit.errors import BadRequest, Unavailable
from app.standalone.camera import CAMERA, CAMERA_HELP, DEVICE_HELP

INPUT = Path("input")
AT = (
    "Address of a Modelmill on this machine that needs no account. The nodes, stages and job are added to it until "
    "this command ends."
)


def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the web server; 0: any free port.")] = 0,
    once: Annotated[
        bool, typer.Option("--once", help="Stop when each rule has triggered, with exit code 0; 1 if none has.")
    ] = False,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, if there is a display.")
    ] = True,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for all data; default: a temporary folder."),
    ] = None,
    at: Annotated[str, typer.Option(metavar="URL", help=AT)] = "",
    camera: Annotated[bool, typer.Option("--camera", help=CAMERA_HELP)] = False,
    device: Annotated[str, typer.Option(metavar="DEVICE|URL", help=DEVICE_HELP)] = CAMERA,
    models: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --camera: folder with ONNX models, as `pseudo` takes it."),
    ] = None,
    installs: Annotated[
        bool, typer.Option("--install", help="Install PyAV (the extra `edge`) into this environment if it is missing.")
    ] = False,
) -> None:
    """Run a demonstration on this machine: a job on a generated clip, rules, and their events by MQTT.

    Clip and models are generated, and nothing is downloaded. Events are sent by MQTT if Mosquitto is installed.
    """
    from app.standalone.extras import ensure_extra, is_installed

    if installs and not ensure_extra("edge", "av"):
        raise CommandFailed(Exit.FAILED)
    if not is_installed("av"):
        raise Unavailable("PyAV, which reads videos, is not installed.", hint="Add --install, which installs it.")
    if at and camera:
        raise BadRequest("--at and --camera exclude each other.", hint="The camera is shown by a Modelmill of its own.")
    if at:
        from app.video.cli.demo.attached import demonstrate_at

        raise CommandFailed(demonstrate_at(at))
    from app.video.cli.demo.walkthrough import demonstrate

    raise CommandFailed(
        demonstrate(port=port, is_once=once, opens=opens, data=data_dir, camera=device if camera else "", models=models)
    )


def pseudo(
    videos: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR|TYPE=SOURCE",
            help="Videos of the edge node: a folder, or one path or URL. Can be repeated. Default: input/, or a "
            "generated clip.",
        ),
    ] = None,
    models: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with the ONNX models of the usual stages.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the web server, for users.")] = 5000,
    tracker_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of the tracker of the cloud, which is the web server, too.")
    ] = 5001,
    edge_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the agent of the edge node.")] = 5002,
    picture_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the web server for pictures.")] = 5100,
    edge_picture_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of the edge node for pictures.")
    ] = 5101,
    service_port: Annotated[
        int, typer.Option(min=1, max=65535, help="First port of the stages; the first one is that of the cloud.")
    ] = 5500,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for all data; default: a temporary folder."),
    ] = None,
) -> None:
    """Start the web server, the scheduler, a cloud node and an edge node on this machine, until Ctrl-C.

    Without videos and models, a clip of four heads and models that detect them and their direction are generated.
    All ports are on 127.0.0.1. The edge node has the address 127.0.0.2, so that plans can tell it from the cloud.
    """
    from app.video.cli.demo.deployment import Ports, videos_of
    from app.video.cli.demo.show import run_demo

    ports = Ports(port, tracker_port, edge_port, picture_port, edge_picture_port, service_port)
    texts = videos if videos is not None else [str(INPUT)] if INPUT.is_dir() else []
    chosen = videos_of(texts) if texts or models else None
    raise CommandFailed(run_demo(ports, videos=chosen, models=models, data=data_dir))
