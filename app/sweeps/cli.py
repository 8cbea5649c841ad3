"""`modelmill sweeps …`: models times options, from a YAML file; the table of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.kit.cli.document_files import read_text
from app.kit.cli.partial_ids import only_match
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson, token
from app.kit.cli.tables import print_lines, print_record
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.conversion.client import ConversionClient
    from app.sweeps.client import SweepsClient

SweepId = Annotated[str, typer.Argument(metavar="ID", help="Id of the sweep, or the beginning of it.")]
ID_CHARS = 32
LISTED = 200
"""Sweeps among which an id is looked for."""
commands = ServiceCommands(
    "app.sweeps.client:SweepsClient",
    help="Convert models with several sets of options each, and see the results side by side.",
)


@commands.command()
def start(
    client: SweepsClient,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="YAML file with name, models (model, images) and options.")
    ],
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Run every stage, even if its result is in the cache.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of all jobs, and show the table.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upload the models and images of the file, and convert each model with each set of options."""
    from app.conversion.client import ConversionClient

    document = _document(file)
    with ConversionClient(client.url, token=token()) as conversion:
        models = [_upload(conversion, file.parent, each) for each in document["models"]]
    options = [{"name": name, "options": values or {}} for name, values in document["options"].items()]
    sweep = client.create(models, options, name=str(document.get("name", file.stem)), no_cache=no_cache)
    if wait:
        _print_table(client.wait(sweep["sweep_id"]), as_json=as_json)
        return
    text = f"Sweep {sweep['sweep_id']} has started. Jobs: {len(sweep['rows'])}."
    print_record(sweep, f"{text} `modelmill sweeps show {sweep['sweep_id']}` shows its table.", as_json=as_json)


@commands.command("list")
def list_sweeps(client: SweepsClient, as_json: AsJson = False) -> None:
    """List my sweeps, newest first."""
    sweeps = client.sweeps()
    print_lines(sweeps, _format_sweep, "There are no sweeps.", as_json=as_json)


@commands.command()
def show(
    client: SweepsClient,
    sweep: SweepId,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the table of a sweep. * marks the jobs that no other job of the same model beats in both quality and
    size."""
    sweep_id = _find_id(client, sweep)
    if as_csv:
        typer.echo(client.table(sweep_id), nl=False)
        return
    _print_table(client.sweep(sweep_id), as_json=as_json)


@commands.command()
def cancel(client: SweepsClient, sweep: SweepId, as_json: AsJson = False) -> None:
    """Cancel the jobs of a sweep, and submit no more."""
    view = client.cancel(_find_id(client, sweep))
    print_record(view, f"{view['sweep_id']} is cancelled.", as_json=as_json)


def _find_id(client: SweepsClient, beginning: str) -> str:
    if len(beginning) >= ID_CHARS:
        return beginning
    matches = (each for each in client.sweeps(limit=LISTED) if each["sweep_id"].startswith(beginning.lower()))
    hint = "`modelmill sweeps list` shows yours."
    return str(only_match(matches, beginning, field="sweep_id", noun="sweep", hint=hint)["sweep_id"])


def _print_table(view: JsonObject, *, as_json: bool) -> None:
    print_record(view, "\n".join(map(_format_row, view["rows"])), as_json=as_json)


def _format_sweep(sweep: JsonObject) -> str:
    counts = "  ".join(f"{number} {state.lower()}" for state, number in sorted(sweep["counts"].items()))
    return f"{sweep['sweep_id']}  {sweep['created_at']}  {sweep['name']}  {counts}"


def _format_row(row: JsonObject) -> str:
    mark = "*" if row["is_best"] else " "
    snr = "-" if row["snr_db"] is None else f"{row['snr_db']:.1f} dB"
    size = "-" if row["size_bytes"] is None else f"{row['size_bytes']} bytes"
    latency = "-" if row["latency_ms"] is None else f"{row['latency_ms']:.3g} ms"
    figures = f"{row['status']}  {snr}  {size}  {latency}  {row['problem']}"
    return f"{mark} {row['model_name']}  {row['variant']}  {figures}".rstrip()


def _document(file: Path) -> JsonObject:
    import yaml

    text = read_text(str(file))
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadRequest(f"{file} cannot be read as YAML: {error}") from error
    is_one = isinstance(document, dict)
    if not (is_one and _are_models(document.get("models")) and _are_options(document.get("options"))):
        raise BadRequest(
            f"{file} is no sweep",
            hint="It has models, a list of {model: a.onnx, images: pictures/}, and options, a mapping from names to "
            "what each changes, as `entropy: {quantization: {method: entropy}}`.",
        )
    return dict(document)


def _are_models(given: Any) -> bool:
    return isinstance(given, list) and all(
        isinstance(each, dict) and {"model", "images"} <= set(each) for each in given
    )


def _are_options(given: Any) -> bool:
    return isinstance(given, dict) and all(value is None or isinstance(value, dict) for value in given.values())


def _upload(client: ConversionClient, folder: Path, each: JsonObject) -> JsonObject:
    from app.conversion.cli.conversion import bundled, packed, require_model

    model, samples = folder / str(each["model"]), folder / str(each["images"])
    require_model(model)
    with bundled(model) as whole, packed([samples]) as pictures:
        keys = client.upload(whole, pictures)
    name, options = str(each.get("name", model.stem)), dict(each.get("options") or {})
    return {"name": name, "model_key": keys["model_key"], "quant_key": keys["quant_key"], "options": options}
