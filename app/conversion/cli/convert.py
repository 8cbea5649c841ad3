"""`modelmill convert`: its flags as the options of a conversion, checked by the service's rules before any upload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.conversion.cli.option_flags import numbers, options_of, preprocess_flags, seconds, steps_of
from app.kit.cli.command import EPILOG as EXIT_CODES
from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.service_commands import with_client
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.conversion.client import ConversionClient

EPILOG = "Ctrl-C cancels the job. " + EXIT_CODES
PREPROCESS, QUANTIZE, TARGET = "Preprocessing (x = (pixel × scale − mean) / std)", "Quantization (host)", "Target"

Optional = str | None


@with_client("app.conversion.client:ConversionClient")
def convert(
    client: ConversionClient,
    model: Annotated[
        str,
        typer.Argument(
            help="The ONNX file, or an address that the service downloads: hf://, mlflow://, models:/, s3://, https://."
        ),
    ],
    images: Annotated[
        list[Path], typer.Argument(help="Reference samples: a folder, a ZIP file, pictures, .npy or .npz files.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the results; default: <model>-converted."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the job; default: the name of the model.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Tag of the job. Can be repeated.")] = None,
    toolchain: Annotated[
        Optional,
        typer.Option(metavar="host|kneron", help="Toolchain that converts; default: host.", rich_help_panel=TARGET),
    ] = None,
    chip: Annotated[
        Optional,
        typer.Option(
            metavar="520|720|530|630|730",
            help="Chip to convert for, with the toolchain kneron.",
            rich_help_panel=TARGET,
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            help='Fixed shape of an input, such as "input=1,3,224,224". Can be repeated.', rich_help_panel=TARGET
        ),
    ] = None,
    preprocess: Annotated[
        Optional,
        typer.Option(
            metavar="NAME|JSON",
            help="Preprocessing of the pictures: unit, signed, imagenet, shift127, bytes_bgr, or the options as "
            "JSON. Default: what is recognized from the family and the first layer of the model, if it is "
            "certain.",
            rich_help_panel=PREPROCESS,
        ),
    ] = None,
    color: Annotated[
        Optional,
        typer.Option(
            metavar="RGB|BGR|GRAY|auto",
            help="Order of the color channels that the model takes.",
            rich_help_panel=PREPROCESS,
        ),
    ] = None,
    resize: Annotated[
        Optional,
        typer.Option(
            metavar="stretch|letterbox",
            help="How pictures are scaled to the input of the model.",
            rich_help_panel=PREPROCESS,
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="Factor for the values of the pixels; default: 1/255.", rich_help_panel=PREPROCESS),
    ] = None,
    mean: Annotated[
        Optional,
        typer.Option(
            help='Mean that is subtracted: one value, such as "127", or one per channel, such as "0.485,0.456,0.406".',
            rich_help_panel=PREPROCESS,
        ),
    ] = None,
    std: Annotated[
        Optional,
        typer.Option(
            help="Standard deviation that is divided by: one value, or one per channel.", rich_help_panel=PREPROCESS
        ),
    ] = None,
    goal: Annotated[
        Optional,
        typer.Option(
            metavar='"snr>=20"|"drop<=1%"|smallest|fastest|none',
            help="Search for a quantization that reaches this goal. Default with the toolchain host: snr>=20, "
            "unless an option such as --method decides.",
            rich_help_panel=QUANTIZE,
        ),
    ] = None,
    budget: Annotated[
        Optional, typer.Option(metavar="90s|10m|1h", help="Time limit of the search.", rich_help_panel=QUANTIZE)
    ] = None,
    start: Annotated[
        Optional,
        typer.Option(
            metavar="bie.json[:ID]",
            help="Start the search with the chosen candidate of this report, or with the candidate ID. With --goal"
            " none, exactly this candidate is built.",
            rich_help_panel=QUANTIZE,
        ),
    ] = None,
    method: Annotated[
        Optional,
        typer.Option(
            metavar="best|minmax|percentile|entropy",
            help="How the ranges of the activations are calibrated; best tries a few quantizations in 8 bits.",
            rich_help_panel=QUANTIZE,
        ),
    ] = None,
    percentile: Annotated[
        float | None,
        typer.Option(
            help="Percentage of the activations that the range covers. Implies --method percentile.",
            rich_help_panel=QUANTIZE,
        ),
    ] = None,
    per_channel: Annotated[
        bool | None,
        typer.Option("--per-channel/--per-tensor", help="Quantize the weights per channel.", rich_help_panel=QUANTIZE),
    ] = None,
    report_images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Pictures that are not used to calibrate or to choose. The result of the search is also measured on"
            " them.",
            rich_help_panel=QUANTIZE,
        ),
    ] = None,
    allow_damaged: Annotated[
        bool | None, typer.Option("--allow-damaged", help="Skip pictures that cannot be read.")
    ] = None,
    options: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="All options as JSON. Options of the command line take precedence."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Run every stage, even if its result is in the cache.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end, or only submit.")] = True,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Longest time to wait. After it, the command ends with exit code 1, and the job continues.",
        ),
    ] = None,
    min_snr: Annotated[
        float | None,
        typer.Option(
            metavar="DB", help="End with exit code 6 if an output has a lower SNR, or if nothing was quantized."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert an ONNX model: ONNX → BIE → NEF. Uploads the files, waits for the end, and downloads the results to
    DIR."""
    from modelmill_client.inputs import REPORT_FOLDER

    from app.conversion.cli.conversion import ConversionOrder

    searched = "kneron" if toolchain == "kneron" else "quantization"
    flags = {
        "toolchain": toolchain,
        f"{searched}.goal": goal,
        f"{searched}.budget_s": seconds(budget),
        "platform": chip,
        "preprocess.color": color if color in (None, "auto") else str(color).upper(),
        "preprocess.resize": resize,
        "preprocess.scale": scale,
        "preprocess.mean": numbers(mean, "--mean"),
        "preprocess.std": numbers(std, "--std"),
        "quantization.steps": None if start is None else steps_of(start),
        "quantization.method": method or (None if percentile is None else "percentile"),
        "quantization.percentile": percentile,
        "quantization.per_channel": per_channel,
        "quantization.report_images": None if report_images is None else REPORT_FOLDER,
        "allow_damaged_images": allow_damaged,
    }
    if report_images is not None and toolchain == "kneron":
        raise BadRequest("--report-images is for the toolchain host", hint="The vendor's toolchain judges by itself.")
    if min_snr is not None and not wait:
        raise BadRequest("--min-snr needs the result of the job", hint="Leave out --no-wait.")
    given = {path: value for path, value in flags.items() if value is not None}
    chosen = options_of(options, {**preprocess_flags(preprocess), **given}, shape or [])
    order = ConversionOrder(
        model,
        images,
        chosen,
        name=name,
        tags=tuple(tag or ()),
        timeout_s=timeout,
        no_cache=no_cache,
        report_images=report_images,
    )
    if wait:
        _convert(client, order, out or Path(f"{order.stem}-converted"), min_snr, as_json)
    else:
        _submit(client, order, as_json)


def _submit(client: Any, order: Any, as_json: bool) -> None:
    from rich.console import Console

    from app.conversion.cli.conversion import submit
    from app.conversion.cli.job_report import show_warnings
    from app.conversion.cli.progress import ProgressLines

    console = Console(stderr=True)
    record = submit(client, order, ProgressLines(console))
    show_warnings(console, record)
    print_record(record, record["job_id"], as_json=as_json)


def _convert(client: Any, order: Any, folder: Path, min_snr: float | None, as_json: bool) -> None:
    from rich.console import Console

    from app.conversion.cli import conversion, job_report

    console = Console(stderr=as_json)
    record = conversion.convert(client, order, console)
    job_report.show_warnings(console, record)
    if record["status"] != "COMPLETED":
        _fail(client, record, console, as_json)
    files = conversion.fetch(client, record, folder)
    report = json.loads(files["bie.json"].read_text(encoding="utf-8")) if "bie.json" in files else {}
    if as_json:
        outcome = {"job": record, "files": {name: str(path) for name, path in files.items()}, "bie": report}
        typer.echo(json.dumps(outcome, indent=2))
    else:
        job_report.show_quality(console, report)
        job_report.show_next(console, client.actions(record["job_id"])["actions"])
        console.print(f"{conversion.RESULT} lies in {files[conversion.RESULT]}", markup=False, soft_wrap=True)
    lack = "" if min_snr is None else job_report.lack_of_quality(record, report, min_snr)
    if lack:
        Console(stderr=True).print(f"modelmill: {lack}", markup=False, highlight=False, soft_wrap=True)
        raise CommandFailed(Exit.BELOW)


def _fail(client: Any, record: JsonObject, console: Any, as_json: bool) -> None:
    from app.conversion.cli.job_report import show_failure

    show_failure(client, record, console)
    if as_json:
        typer.echo(json.dumps({"job": record, "files": {}}, indent=2))
    is_cancelled = (record["error"] or {}).get("code") == "CANCELLED"
    raise CommandFailed(Exit.CANCELLED if is_cancelled else Exit.FAILED)
