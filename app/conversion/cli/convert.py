"""`modelmill convert`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from app.conversion.cli.service import client_of
from app.kit.cli.command import EPILOG as EXIT_CODES
from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.service_options import AsJson, Url
from app.kit.errors import BadRequest

EPILOG = "Ctrl-C cancels the job. " + EXIT_CODES
PREPROCESS, QUANTIZE, TARGET = "Preprocessing (x = (pixel × scale − mean) / std)", "Quantization (host)", "Target"

Optional = str | None


def convert(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="The ONNX file.")],
    images: Annotated[
        list[Path], typer.Argument(help="Reference images: a folder, a zip, pictures, .npy or .npz files.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where results go; default <model>-converted.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the job; default the model's.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be repeated.")] = None,
    toolchain: Annotated[Optional, typer.Option(metavar="host|kneron", rich_help_panel=TARGET)] = None,
    chip: Annotated[
        Optional, typer.Option(metavar="520|720|530|630|730", help="For kneron.", rich_help_panel=TARGET)
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(help='Fixed shape of an input: "input=1,3,224,224"; may be repeated.', rich_help_panel=TARGET),
    ] = None,
    color: Annotated[Optional, typer.Option(metavar="RGB|BGR|GRAY|auto", rich_help_panel=PREPROCESS)] = None,
    resize: Annotated[Optional, typer.Option(metavar="stretch|letterbox", rich_help_panel=PREPROCESS)] = None,
    scale: Annotated[float | None, typer.Option(help="Default 1/255.", rich_help_panel=PREPROCESS)] = None,
    mean: Annotated[
        Optional, typer.Option(help='"127" or one per channel: "0.485,0.456,0.406".', rich_help_panel=PREPROCESS)
    ] = None,
    std: Annotated[Optional, typer.Option(help="As mean.", rich_help_panel=PREPROCESS)] = None,
    method: Annotated[Optional, typer.Option(metavar="minmax|percentile|entropy", rich_help_panel=QUANTIZE)] = None,
    percentile: Annotated[
        float | None,
        typer.Option(help="Share of activations kept; means --method percentile.", rich_help_panel=QUANTIZE),
    ] = None,
    per_channel: Annotated[
        bool | None, typer.Option("--per-channel/--per-tensor", help="Of the weights.", rich_help_panel=QUANTIZE)
    ] = None,
    allow_damaged: Annotated[
        bool | None, typer.Option("--allow-damaged", help="Leave out images that cannot be read.")
    ] = None,
    options: Annotated[
        Path | None, typer.Option(metavar="FILE", help="All options as JSON; flags are laid over it.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end, or just submit.")] = True,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Wait no longer; the job itself goes on (exit code 1).")
    ] = None,
    min_snr: Annotated[
        float | None,
        typer.Option(metavar="DB", help="End with exit code 6 when an output has less, or nothing was quantized."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Convert an ONNX model: ONNX → BIE → NEF. Uploads, waits, downloads the results to DIR."""
    from app.conversion.cli.conversion import Order
    from app.conversion.cli.flags import numbers, options_of

    flags = {
        "toolchain": toolchain,
        "platform": chip,
        "preprocess.color": color if color in (None, "auto") else str(color).upper(),
        "preprocess.resize": resize,
        "preprocess.scale": scale,
        "preprocess.mean": numbers(mean, "--mean"),
        "preprocess.std": numbers(std, "--std"),
        "quantization.method": method or (None if percentile is None else "percentile"),
        "quantization.percentile": percentile,
        "quantization.per_channel": per_channel,
        "allow_damaged_images": allow_damaged,
    }
    if min_snr is not None and not wait:
        raise BadRequest("--min-snr needs the result of the job", hint="Leave out --no-wait.")
    chosen = options_of(options, flags, shape or [])
    order = Order(model, images, chosen, name=name, tags=tuple(tag or ()), timeout_s=timeout)
    with client_of(context, url) as client:
        if wait:
            _convert(client, order, out or Path(f"{model.stem}-converted"), min_snr, as_json)
        else:
            _submit(client, order, as_json)


def _submit(client: Any, order: Any, as_json: bool) -> None:
    from rich.console import Console

    from app.conversion.cli.conversion import show_warnings, submit
    from app.conversion.cli.progress import Lines

    console = Console(stderr=True)
    record = submit(client, order, Lines(console))
    show_warnings(console, record)
    typer.echo(json.dumps(record, indent=2) if as_json else record["job_id"])


def _convert(client: Any, order: Any, folder: Path, min_snr: float | None, as_json: bool) -> None:
    from rich.console import Console

    from app.conversion.cli import conversion

    console = Console(stderr=as_json)
    record = conversion.convert(client, order, console)
    conversion.show_warnings(console, record)
    if record["status"] != "COMPLETED":
        _failed(client, record, console, as_json)
    files = conversion.fetch(client, record, folder)
    report = json.loads(files["bie.json"].read_text(encoding="utf-8")) if "bie.json" in files else {}
    if as_json:
        shown = {"job": record, "files": {name: str(path) for name, path in files.items()}, "bie": report}
        typer.echo(json.dumps(shown, indent=2))
    else:
        conversion.show_quality(console, report)
        console.print(f"{conversion.RESULT} lies in {files[conversion.RESULT]}", markup=False, soft_wrap=True)
    lack = "" if min_snr is None else conversion.lack_of_quality(record, report, min_snr)
    if lack:
        Console(stderr=True).print(f"modelmill: {lack}", markup=False, highlight=False, soft_wrap=True)
        raise CommandFailed(Exit.BELOW)


def _failed(client: Any, record: dict[str, Any], console: Any, as_json: bool) -> None:
    from app.conversion.cli.conversion import show_failure

    show_failure(client, record, console)
    if as_json:
        typer.echo(json.dumps({"job": record, "files": {}}, indent=2))
    is_cancelled = (record["error"] or {}).get("code") == "CANCELLED"
    raise CommandFailed(Exit.CANCELLED if is_cancelled else Exit.FAILED)
