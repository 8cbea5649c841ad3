"""One conversion on the command line: pack, upload, submit, watch, fetch, show."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modelmill_client import errors, inputs
from rich.console import Console

from app.conversion.cli.progress import ProgressDisplay, make_display
from app.conversion.cli.sources import fetch_key, is_source, stem_of
from app.conversion.client import ArchiveClient, ConversionClient
from app.conversion.errors import NoSamples
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import CommandFailed, Exit
from app.kit.errors import BadInput, ModelmillError, NotFound
from app.kit.text.json_values import JsonObject

RESULT = "out.nef"
FLAGS = {
    "MODEL_EXTERNAL_WEIGHTS": "On the command line: lay them beside the model, and they go with it.",
    "IMAGES_DAMAGED": "On the command line: --allow-damaged.",
}
"""Code of a refusal → the flag that answers it; the service's own hints name fields of the API."""


@dataclass(frozen=True)
class ConversionOrder:
    """What to convert and how."""

    model: str
    """The path of a file, or a source that the service fetches from."""
    images: Sequence[Path]
    options: JsonObject = field(default_factory=dict)
    """JSON of Options."""
    name: str = ""
    tags: tuple[str, ...] = ()
    timeout_s: float | None = None
    no_cache: bool = False
    report_images: Path | None = None
    """A folder of pictures that neither calibrate nor choose."""

    @property
    def stem(self) -> str:
        """What the job and the folder of its results are called, unless they are given names."""
        return stem_of(self.model)


def submit(client: ConversionClient, order: ConversionOrder, display: ProgressDisplay) -> JsonObject:
    """Upload the inputs and create the job. Returns its record."""
    if is_source(order.model):
        with packed(order.images, order.report_images) as samples:
            quant_key = client.upload_pictures(samples)["quant_key"]
        keys = {"model_key": fetch_key(client, order.model, display), "quant_key": quant_key}
    else:
        keys = _upload(client, order, display)
    name = order.name or order.stem
    try:
        return client.submit(
            keys["model_key"],
            keys["quant_key"],
            options=order.options,
            name=name[:200],
            tags=order.tags,
            no_cache=order.no_cache,
        )
    except ApiError as error:
        error.hint = f"{error.hint} {_name_flag(error)}".strip()
        raise


def _upload(client: ConversionClient, order: ConversionOrder, display: ProgressDisplay) -> JsonObject:
    path = Path(order.model)
    require_model(path)
    with bundled(path) as model, packed(order.images, order.report_images) as samples:
        total = model.stat().st_size + samples.stat().st_size
        done = 0

        def count(size: int) -> None:
            nonlocal done
            done += size
            display.sent(min(done, total), total)

        return client.upload(model, samples, count)


def _name_flag(error: ApiError) -> str:
    shapes = [
        f'--shape "{entry["name"]}={",".join(map(str, entry["example"]))}"'
        for entry in error.detail.get("inputs", ())
        if isinstance(entry, dict) and "example" in entry
    ]
    return f"On the command line: {' '.join(shapes)}." if shapes else FLAGS.get(error.code, "")


def convert(client: ConversionClient, order: ConversionOrder, console: Console) -> JsonObject:
    """Submit, watch to the end, and return the last record.

    Raises:
        CommandFailed: Ctrl-C was pressed, which cancels the job.
    """
    record: JsonObject | None = None
    try:
        with make_display(console) as display:
            record = submit(client, order, display)
            return follow(client, record, display, timeout_s=order.timeout_s)
    except KeyboardInterrupt:
        _give_up(client, record, console)
        raise CommandFailed(Exit.CANCELLED) from None


def follow(
    client: ConversionClient, record: JsonObject, display: ProgressDisplay, *, timeout_s: float | None
) -> JsonObject:
    """The record of a job at its end.

    Args:
        record: of the job, as it was at first.
        display: shows each change.
        timeout_s: how long to wait, in seconds; None: until its end.

    Raises:
        ConversionLost: The service has forgotten it.
        ModelmillError: It took longer, or the service does not answer.
    """
    display.show(record)
    try:
        for seen in client.watch(record["job_id"], timeout_s=timeout_s):
            record = seen
            display.show(record)
    except ApiError as error:
        if error.status == 404:  # it was there a moment ago: the conversion is lost, not misnamed
            raise ConversionLost(error.message, hint=error.hint) from error
        raise
    except ModelmillError as error:
        error.hint += f" `modelmill jobs show {record['job_id']}` tells how it went on."
        raise
    return record


class ConversionLost(ModelmillError, code="CONVERSION_LOST"): ...


def _give_up(client: ConversionClient, record: JsonObject | None, console: Console) -> None:
    if record is None:
        console.print("Interrupted before the job was submitted: nothing is left to cancel.")
        return
    job_id = record["job_id"]
    try:
        client.cancel(job_id)
    except ModelmillError as error:
        console.print(f"Job {job_id} could not be cancelled: {error.message}", markup=False)
        return
    console.print(f"Job {job_id} is cancelled.")


def fetch(
    client: ConversionClient | ArchiveClient, record: JsonObject, folder: Path, *, names: Sequence[str] | None = None
) -> dict[str, Path]:
    """Download files of a job.

    Args:
        client: of the service's jobs, or of its archive.
        record: of the job.
        folder: where files go.
        names: of files; None: the results, reports and logs, but not the inputs.

    Returns:
        Name → path.

    Raises:
        NotFound: The job has no file of one of the names.
        BadInput: The folder cannot be written to.
    """
    try:
        return client.download_files(record, folder, names)
    except OSError as error:
        raise BadInput(f"cannot write to {folder}: {error.strerror or error}", hint="Choose another folder.") from error


def require_model(path: Path) -> None:
    if not path.exists():
        raise NotFound(f"there is no model {path}", hint="Check the path.")
    if path.is_dir():
        raise BadInput(f"the model {path} is a folder", hint="Name the file itself.")


@contextlib.contextmanager
def bundled(model: Path) -> Iterator[Path]:
    """The model as it is; or a temporary zip with the files its weights lie in, as far as they are beside it.

    The service tells what is missing, or that it is not a model.
    """
    beside = [(place, path) for place in _name_places(model) if (path := model.parent / place).is_file()]
    if not beside:
        yield model
        return
    with inputs.zipped([(model.name, model), *beside]) as archive:
        yield archive


def _name_places(model: Path) -> list[str]:
    from app.conversion.toolchains.graph import external, parse

    try:
        return external.places(model.name, parse(model))
    except (ModelmillError, OSError):
        return []


@contextlib.contextmanager
def packed(samples: Sequence[Path], report: Path | None = None) -> Iterator[Path]:
    """One file with all of them: a lone file as it is; folders and several files in a temporary zip."""
    from app.conversion.sample_kinds import KINDS

    for path in samples:
        if not path.exists():
            raise NotFound(
                f"there is no {path}", hint="Reference samples are a folder, a zip, pictures, .npy or .npz files."
            )
    try:
        with inputs.packed(samples, tuple(KINDS), report) as archive:
            yield archive
    except errors.NoImages as error:
        raise NoSamples(error.message, hint=error.hint) from error
