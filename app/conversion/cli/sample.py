"""Converts the bundled sample through a running service, for a first run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from rich.console import Console

from app.conversion.cli.conversion import ConversionOrder, convert, fetch
from app.conversion.cli.job_report import show_failure, show_quality
from app.conversion.client import ConversionClient
from app.kit.cli.command import Exit, complain, exit_code
from app.kit.errors import ModelmillError, NotFound
from app.kit.files import data_folder

FOLDER = data_folder("ops/samples/digits")
MODEL, IMAGES, LABELLED = FOLDER / "digits.onnx", FOLDER / "reference.zip", FOLDER / "test.npz"


def convert_sample(url: str, folder: Path, console: Console, *, token: str = "") -> bool:
    """Convert, fetch the results to `folder`, show quality and accuracy. True when the job was COMPLETED."""
    if not MODEL.exists():
        raise NotFound(
            f"the bundled sample is not at {FOLDER}", hint="Start from a copy of the repository, or with --no-sample."
        )
    console.print(
        "Converting the bundled sample: a classifier of handwritten digits, 100 reference pictures.", soft_wrap=True
    )
    with ConversionClient(url, token=token) as client:
        record = convert(client, ConversionOrder(str(MODEL), [IMAGES], name="digits", tags=("sample",)), console)
        if record["status"] != "COMPLETED":
            show_failure(client, record, console)
            return False
        files = fetch(client, record, folder)
    show_quality(console, json.loads(files["bie.json"].read_text(encoding="utf-8")))
    _show_accuracy(console, files["out.nef"])
    console.print(f"out.nef lies in {files['out.nef']}", markup=False, highlight=False, soft_wrap=True)
    return True


def _show_accuracy(console: Console, nef: Path) -> None:
    from app.conversion.toolchains.host.accuracy import compare_accuracy

    accuracy = compare_accuracy(MODEL, nef, LABELLED)
    console.print(
        f"accuracy on {accuracy.samples} other pictures: {accuracy.fp32:.1%} fp32, {accuracy.int8:.1%} int8",
        highlight=False,
    )


def main() -> int:
    """`python -m app.conversion.cli.sample URL FOLDER`, as `modelmill up --sample` runs it."""
    url, folder = sys.argv[1:]
    token = os.environ.get("MODELMILL_TOKEN", "").strip()
    try:
        return Exit.OK if convert_sample(url, Path(folder), Console(), token=token) else Exit.FAILED
    except ModelmillError as error:
        complain(error)
        return exit_code(error)
    except KeyboardInterrupt:
        return Exit.CANCELLED


if __name__ == "__main__":
    sys.exit(main())
