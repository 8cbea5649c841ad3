"""`modelmill models …`: list, add, set-decoder, show, versions, tag, untag, allow, shared, remove. Heavy libraries are
imported by what needs them.

A command parses, calls the client and prints; results go to stdout, troubles to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.access import words_of
from app.kit.cli.document_files import read_text
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import Allowed, AsJson, Everybody, Limit
from app.kit.cli.tables import print_record, print_table, table_of
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from rich.table import Table

    from app.model_registry.client import ModelsClient

ARTIFACTS = ("nef", "bie", "onnx")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the model.")]
OneName = Annotated[
    str,
    typer.Argument(metavar="NAME[@VERSION]", help="The model, or a version of it, such as faces@3 or faces@stable."),
]
Tag = Annotated[str, typer.Argument(metavar="TAG", help="The tag, such as stable or canary.")]
commands = ServiceCommands(
    "app.model_registry.client:ModelsClient", help="The model registry: list, add, show, versions, tag, share, remove."
)


@commands.command("list")
def list_models(
    client: ModelsClient,
    search: Annotated[str, typer.Option("--search", "-q", help="Text in the name.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List my models, newest first."""
    models = list(client.models(limit=limit, text=search))
    nothing = "There are no models." if not search else f"No model has {search} in its name."
    print_table(models, _build_models_table, nothing, as_json=as_json)


@commands.command()
def add(
    client: ModelsClient,
    name: Name,
    job: Annotated[str, typer.Option("--job", metavar="ID", help="Id of a completed conversion job.")] = "",
    artifact: Annotated[str, typer.Option(metavar="nef|bie|onnx", help="Which of the job's models.")] = "nef",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="ONNX", help="An ONNX file, instead of --job.")
    ] = None,
    decoder: Annotated[str, typer.Option(metavar="auto|classifier|yunet|…", help="Decoder of the outputs.")] = "auto",
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the names of the classes, one per line.")
    ] = None,
    new_version: Annotated[
        bool,
        typer.Option(
            "--new-version", help="Add a version to an existing model; services that use the model then run it."
        ),
    ] = False,
    note: Annotated[str, typer.Option(metavar="TEXT", help="Note about this version.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add a model to the registry: a result of a conversion job, or an ONNX file of your own with the weights beside
    it."""
    if bool(job) == bool(file):
        raise BadRequest("a model is of a job or a file", hint="Give --job ID or --file MODEL.onnx.")
    if artifact not in ARTIFACTS:
        raise BadRequest(f"a job makes no {artifact}", hint=f"--artifact is one of {', '.join(ARTIFACTS)}.")
    names = read_text(str(labels)).strip().splitlines() if labels else []
    if file:
        bring = partial(client.bring, decoder=decoder, labels=names, new_version=new_version, note=note)
        model = bring_file(bring, name, file)
    else:
        model = client.add_from_job(
            name, job, artifact=artifact, decoder=decoder, labels=names, new_version=new_version, note=note
        )
    added = f"has a version {model['version']}" if new_version else "is a model now"
    print_record(model, f"{model['name']} {added}: {kind_of(model)}.", as_json=as_json)


@commands.command("set-decoder")
def set_decoder(
    client: ModelsClient,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="An ONNX file, which is changed, or a registered model: NAME, NAME@3 or NAME@TAG."
        ),
    ],
    decoder: Annotated[Path, typer.Argument(metavar="PYTHON", help="A file with a function decode.")],
    note: Annotated[str, typer.Option(metavar="TEXT", help="A note on the new version of a registered model.")] = "",
    as_json: AsJson = False,
) -> None:
    """Store a decoder of your own in an ONNX file, or in a new version of a registered model. It is not run here."""
    from app.model_registry.own_decoder import check_decoder, store_decoder

    source = read_text(str(decoder))
    check_decoder(source, str(decoder))
    if not (Path(model).is_file() or model.endswith(".onnx")):
        added = client.set_decoder(model, source, note)
        print_record(added, f"Version {added['version']} of {added['name']} is read by {decoder}.", as_json=as_json)
        return
    from app.conversion.cli.conversion import require_model

    require_model(Path(model))
    store_decoder(Path(model), source)
    text = f"{model} is read by {decoder} now. Add it with: modelmill models add NAME --file {model}"
    print_record({"model": model, "decoder": str(decoder)}, text, as_json=as_json)


@commands.command()
def show(client: ModelsClient, name: OneName, as_json: AsJson = False) -> None:
    """Show a model."""
    model = client.model(name)
    print_record(model, "\n".join(model_lines(model)), as_json=as_json)


@commands.command()
def versions(client: ModelsClient, name: Name, as_json: AsJson = False) -> None:
    """List the versions of a model, newest first, with their tags."""
    answer = client.versions(name)
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        print_table(answer["versions"], _build_versions_table, "There are no versions.", as_json=False)


@commands.command()
def tag(
    client: ModelsClient,
    name: Name,
    tag: Tag,
    version: Annotated[int, typer.Argument(min=1, help="Number of the version that the tag points to.")],
    as_json: AsJson = False,
) -> None:
    """Set a tag of a model. Services and stages with NAME@TAG switch to this version."""
    client.set_tag(name, tag, version)
    print_record({"name": name, "tag": tag, "version": version}, f"{name}@{tag} is version {version}.", as_json=as_json)


@commands.command()
def untag(client: ModelsClient, name: Name, tag: Tag, as_json: AsJson = False) -> None:
    """Remove a tag of a model, unless a service or a stage uses it."""
    client.remove_tag(name, tag)
    print_record({"removed": f"{name}@{tag}"}, f"{name} has no tag {tag}.", as_json=as_json)


@commands.command()
def allow(
    client: ModelsClient,
    name: Name,
    who: Allowed = None,
    everybody: Everybody = False,
    nobody: Annotated[bool, typer.Option("--nobody", help="Nobody but you.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set who may use a model of yours in services and stages, as OWNER/NAME. Without names: print the access rule."""
    if sum((bool(who), everybody, nobody)) > 1:
        raise BadRequest("These contradict each other.", hint="Give names, or --everybody, or --nobody.")
    if who or everybody or nobody:
        record = client.put_access(name, None if everybody else who or [])
    else:
        record = client.access(name)
    allowed = record["allowed"]
    text = f"{name}: {'nobody but you' if allowed == [] else words_of(allowed)}"
    print_record(record, text, as_json=as_json)


@commands.command()
def shared(client: ModelsClient, as_json: AsJson = False) -> None:
    """List the models of others that I may use."""
    models = client.shared()
    print_table(models, _build_shared_table, "There are no models of others that you may use.", as_json=as_json)


@commands.command()
def remove(client: ModelsClient, name: OneName, as_json: AsJson = False) -> None:
    """Delete a model and its files, or one version, unless a service, a stage, a video job or a tag uses it."""
    client.remove(name)
    print_record({"removed": name}, f"{name} is removed.", as_json=as_json)


def kind_of(model: JsonObject) -> str:
    """host NEF, kneron NEF, BIE, ONNX"""
    form = str(model["format"]).upper()
    return f"{model['toolchain']} {form}" if form == "NEF" else form


def model_lines(model: JsonObject) -> Iterator[str]:
    yield f"model     {model['name']}"
    yield f"version   {model['version']}{': ' + model['note'] if model['note'] else ''}"
    yield f"is        {kind_of(model)}, {model['size_bytes']} bytes, {model['sha256']}"
    yield f"from      job {model['job_id']}" if model["job_id"] else "from      its user"
    yield f"created   {model['created_at']}"
    yield f"decoder   {model['decoder']}"
    if model["metrics"]:
        yield f"measured  {_format_measured(model)}"
    for side in ("inputs", "outputs"):
        for tensor in model[side]:
            yield f"{side[:-1]:9} {tensor['name']} {'x'.join(map(str, tensor['shape']))} {tensor['dtype']}"
    if model["labels"]:
        yield f"labels    {len(model['labels'])}: {', '.join(model['labels'][:10])}"
    if model["twin_sha256"]:
        yield f"twin      ONNX, {model['twin_size_bytes']} bytes, {model['twin_sha256']}"


def bring_file(bring: Callable[[str, Path], JsonObject], name: str, file: Path) -> JsonObject:
    """With the files beside it that its weights lie in."""
    from app.conversion.cli.conversion import bundled, require_model

    require_model(file)
    with bundled(file) as whole:
        return bring(name, whole)


def _build_models_table(models: list[JsonObject]) -> Table:
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


def _build_shared_table(models: list[JsonObject]) -> Table:
    from rich.markup import escape

    from app.kit.clock import age

    table = table_of("name", "version", "tags", "age")
    for model in models:
        tags, since = " ".join(model["tags"]), age(model["created_at"], datetime.now(UTC))
        table.add_row(escape(model["name"]), str(model["version"]), tags, since)
    return table


def _build_versions_table(versions: list[JsonObject]) -> Table:
    from rich.markup import escape

    from app.kit.clock import age

    table = table_of("version", "tags", "sha256", "is", "from", "measured", "age", "note")
    for version in versions:
        table.add_row(
            str(version["version"]),
            " ".join(version["tags"]),
            version["sha256"][:12],
            kind_of(version),
            version["job_id"] or "brought",
            _format_measured(version),
            age(version["created_at"], datetime.now(UTC)),
            escape(version["note"]),
        )
    return table


def _format_measured(model: JsonObject) -> str:
    """29.5 dB, OK"""
    metrics = model["metrics"]
    snr = f"{metrics['snr_db']:.1f} dB" if isinstance(metrics.get("snr_db"), int | float) else ""
    return ", ".join(filter(None, (snr, str(metrics.get("verdict") or ""))))
