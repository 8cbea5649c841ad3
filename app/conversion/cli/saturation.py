"""`modelmill saturation`: how many pictures calibration needs. Runs on this machine, without a service."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.conversion.cli.option_flags import preprocess_flags
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record

if TYPE_CHECKING:
    from app.conversion.model.saturation import SaturationCurve
    from app.conversion.options import Options

IMAGES_MOST, UNPACKED_BYTES = 5000, 8 << 30


def saturation(
    model: Annotated[Path, typer.Argument(help="The ONNX file.")],
    images: Annotated[list[Path], typer.Argument(help="A folder, a ZIP file, pictures, .npy or .npz files.")],
    preprocess: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|JSON", help="Preprocessing, as in `modelmill convert`; default: what is recognized."
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Number of CPU threads.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Show the SNR by the number of calibration pictures, measured on pictures that are not used to calibrate."""
    from app.conversion.cli.conversion import packed, require_model

    require_model(model)
    with packed(images) as archive:
        curve = _measure_curve(model, archive, preprocess, threads)
    print_record(curve.to_json(), "\n".join(lines(curve)), as_json=as_json)


def lines(curve: SaturationCurve) -> Sequence[str]:
    """A line for each number, and what they come to."""
    numbers = ["–" if point.snr_db is None else f"{point.snr_db:.1f} dB" for point in curve.points]
    rows = [f"{point.samples:6} pictures  {number}" for point, number in zip(curve.points, numbers, strict=True)]
    if curve.times is None:
        verdict = f"It still rises at {curve.most}: more pictures may gain more."
    else:
        verdict = f"{curve.enough} are enough; {curve.most} take {curve.times_text} times as long and gain nothing."
    return [*rows, f"judged on {curve.judges} other pictures. {verdict}"]


def _measure_curve(model: Path, archive: Path, preprocess: str | None, threads: int) -> SaturationCurve:
    import onnx

    from app.conversion.intake.archive import extract
    from app.conversion.intake.model_checks import check_model
    from app.conversion.model import Stage
    from app.conversion.options import Options
    from app.conversion.toolchains.base import REF_IMAGES, StageRequest
    from app.conversion.toolchains.host.inputs import reference_samples
    from app.conversion.toolchains.host.provenance import inputs_of
    from app.conversion.toolchains.host.saturation import saturation_curve
    from app.conversion.toolchains.host.toolchain import HostToolchain

    checked = check_model(model, Options(), max_bytes=model.stat().st_size)
    options = _build_options(preprocess, checked.recognition)
    with tempfile.TemporaryDirectory(prefix="modelmill-") as place:
        folder = Path(place)
        extract(archive, folder / REF_IMAGES, max_files=IMAGES_MOST, max_bytes=UNPACKED_BYTES)
        (folder / "model.onnx").write_bytes(model.read_bytes())
        request = StageRequest(Stage.ONNX, folder, options, threads)
        with _make_silent_log():
            output = HostToolchain().run(request, _ignore_progress).output
        optimized = onnx.load(output)
        samples = reference_samples(request, inputs_of(optimized))
        return saturation_curve(optimized, samples, options.quantization, threads=threads, step=_tell)


def _build_options(preprocess: str | None, recognition: Any) -> Options:
    from app.conversion.cli.option_flags import options_of
    from app.conversion.options import Options

    chosen = options_of(None, {**preprocess_flags(preprocess), "quantization.method": "minmax"}, [])
    if preprocess is None and recognition is not None and recognition.is_sure:
        typer.echo(f"preprocessing: {recognition.summary}", err=True)
        chosen["preprocess"] = recognition.preprocess.to_json()
    return Options.model_validate(chosen)


def _tell(done: int, of: int) -> None:
    typer.echo(f"calibrated {done} of {of} times", err=True)


def _ignore_progress(_fraction: float, _text: str) -> None:
    """The one stage that runs here takes a moment."""


def _make_silent_log() -> Any:
    """What a stage says is the log of a job, and here is none."""
    import contextlib
    import io

    return contextlib.redirect_stdout(io.StringIO())
