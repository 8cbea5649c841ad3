"""`modelmill models …`: list, add, show, remove. Heavy libraries are imported by what needs them.

A command parses, calls the client and prints; results go to stdout, troubles to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.kit.cli.command import EPILOG
from app.kit.cli.service_options import AsJson, Url, token, url_of
from app.kit.cli.tables import print_table, table_of
from app.kit.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from rich.table import Table

    from app.model_registry.client import ModelsClient

ARTIFACTS = ("nef", "bie", "onnx")
Json = dict[str, Any]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the model.")]
commands = typer.Typer(
    help="Models by name, for what runs them: list, add, show, remove.", no_args_is_help=True, epilog=EPILOG
)


@commands.command("list")
def list_models(
    context: typer.Context,
    search: Annotated[str, typer.Option("--search", "-q", help="Text in the name.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """My models, newest first."""
    with _client(context, url) as client:
        models = list(client.models(limit=limit, text=search))
    nothing = "There are no models." if not search else f"No model has {search} in its name."
    print_table(models, _models_table, nothing, as_json=as_json)


@commands.command()
def add(
    context: typer.Context,
    name: Name,
    job: Annotated[str, typer.Option("--job", metavar="ID", help="Of a completed conversion job.")] = "",
    artifact: Annotated[str, typer.Option(metavar="nef|bie|onnx", help="Which of the job's models.")] = "nef",
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="ONNX", help="Bring this model instead.")] = None,
    decoder: Annotated[str, typer.Option(metavar="auto|classifier|yunet|…", help="How outputs are read.")] = "auto",
    labels: Annotated[Path | None, typer.Option(metavar="FILE", help="Names of the classes, one in each line.")] = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Keep a model under a name: one that a job made, or an ONNX of your own with the weights that lie beside it."""
    if bool(job) == bool(file):
        raise BadRequest("a model is of a job or a file", hint="Give --job ID or --file MODEL.onnx.")
    if artifact not in ARTIFACTS:
        raise BadRequest(f"a job makes no {artifact}", hint=f"--artifact is one of {', '.join(ARTIFACTS)}.")
    names = _lines(labels) if labels else []
    with _client(context, url) as client:
        if file:
            model = _bring(client, name, _existing(file), decoder, names)
        else:
            model = client.add_from_job(name, job, artifact=artifact, decoder=decoder, labels=names)
    typer.echo(json.dumps(model, indent=2) if as_json else f"{model['name']} is a model now: {kind_of(model)}.")


@commands.command()
def show(context: typer.Context, name: Name, as_json: AsJson = False, url: Url = None) -> None:
    """What is known of a model."""
    with _client(context, url) as client:
        model = client.model(name)
    typer.echo(json.dumps(model, indent=2) if as_json else "\n".join(model_lines(model)))


@commands.command()
def remove(context: typer.Context, name: Name, url: Url = None) -> None:
    """Forget a model and its files. One that a service or a video job uses stays."""
    with _client(context, url) as client:
        client.remove(name)
    typer.echo(f"{name} is removed.")


def kind_of(model: Json) -> str:
    """host NEF, kneron NEF, BIE, ONNX"""
    form = str(model["format"]).upper()
    return f"{model['toolchain']} {form}" if form == "NEF" else form


def model_lines(model: Json) -> Iterator[str]:
    yield f"model     {model['name']}"
    yield f"is        {kind_of(model)}, {model['size_bytes']} bytes, {model['sha256']}"
    yield f"from      job {model['job_id']}" if model["job_id"] else "from      its user"
    yield f"created   {model['created_at']}"
    yield f"decoder   {model['decoder']}"
    for side in ("inputs", "outputs"):
        for tensor in model[side]:
            yield f"{side[:-1]:9} {tensor['name']} {'x'.join(map(str, tensor['shape']))} {tensor['dtype']}"
    if model["labels"]:
        yield f"labels    {len(model['labels'])}: {', '.join(model['labels'][:10])}"
    if model["twin_sha256"]:
        yield f"twin      ONNX, {model['twin_size_bytes']} bytes, {model['twin_sha256']}"


def _client(context: typer.Context, url: str | None) -> ModelsClient:
    from app.model_registry.client import ModelsClient

    return ModelsClient(url_of(context, url), token=token())


def _bring(client: ModelsClient, name: str, file: Path, decoder: str, labels: list[str]) -> Json:
    """With the files beside it that its weights lie in."""
    from app.conversion.cli.conversion import bundled

    with bundled(file) as whole:
        return client.bring(name, whole, decoder=decoder, labels=labels)


def _existing(file: Path) -> Path:
    if file.is_file():
        return file
    raise NotFound(f"there is no file {file}", hint="Name an ONNX model.")


def _lines(file: Path) -> list[str]:
    try:
        return _existing(file).read_text().strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{file} cannot be read as text", hint="Write one label in each line, as UTF-8.") from error


def _models_table(models: list[Json]) -> Table:
    from rich.markup import escape

    from app.kit.clock import age

    table = table_of("name", "is", "from", "bytes", "decoder", "age")
    for model in models:
        table.add_row(
            escape(model["name"]),
            kind_of(model),
            model["job_id"] or "brought",
            str(model["size_bytes"]),
            model["decoder"],
            age(model["created_at"], datetime.now(UTC)),
        )
    return table
