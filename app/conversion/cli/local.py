"""`modelmill inspect` and `modelmill run`: what needs no service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record
from app.kit.errors import BadInput, BadRequest


def inspect(
    file: Annotated[Path, typer.Argument(help="An .onnx, .bie or .nef file, or a ZIP file of pictures.")],
    chip: Annotated[
        str | None,
        typer.Option(
            metavar="520|720|530|630|730", help="Show the operators that this chip probably does not support."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a file is and what it contains, without running it. Exit code 2 if it is damaged or of an unknown
    kind."""
    from app.conversion.cli.tables import plain
    from app.conversion.inspection import damage, inspect_file

    facts = inspect_file(file, _parse_chip(chip))
    for line in [json.dumps(facts, indent=2, default=str)] if as_json else plain(facts):
        typer.echo(line)
    problem = damage(facts)
    if problem:
        raise BadInput(problem, hint="Copy or download it again and compare the file sizes.")


def run(
    nef: Annotated[Path, typer.Argument(help="An out.nef of the toolchain host.")],
    sample: Annotated[Path, typer.Argument(metavar="INPUT", help="A picture, or an .npy or .npz file.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE.npz", help="File for the outputs.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a converted model on this machine, on one image or on every sample of an array file."""
    from app.conversion.cli import local_run

    model = local_run.open_model(nef)
    results = local_run.run_all(model, sample)
    if out is not None:
        local_run.save(results, out)
    records = [local_run.to_json(result) for result in results]
    print_record(records, "\n".join(local_run.lines(results)), as_json=as_json)


def _parse_chip(text: str | None) -> Any:
    from app.conversion.options import Chip

    if text is None:
        return None
    try:
        return Chip(text.upper().removeprefix("KL"))
    except ValueError:
        chips = ", ".join(chip.value for chip in Chip)
        raise BadRequest(f"there is no chip {text}", hint=f"The chips are {chips}.") from None
