"""What submitting the form of a new conversion would do: its conversions, findings and duration, and the same as curl,
Python and command line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.conversion.options import Options
from app.conversion.pages import new_form
from app.conversion.pages.new_form import Values
from app.conversion.pages.new_submission import Batch, batch_of, is_batch, name_of
from app.conversion.service import Conversion

MODEL, IMAGES = "model.onnx", "images.zip"
"""Placeholders in the commands for files that are not chosen yet."""


@dataclass(frozen=True)
class SubmissionSummary:
    """The last part of the form: what a submission would do."""

    jobs: int
    """Number of conversions."""
    warnings: int
    blocks: int
    """Number of findings that prevent the submission."""
    ahead: int
    """Number of jobs waiting for the first stage."""
    forecast_s: float | None
    """Seconds until a job that is submitted now is finished."""
    commands: Mapping[str, str]
    """By "curl", "python" and "cli"; empty while the options are not valid."""


def summary_of(conversion: Conversion, user: str, view: Mapping[str, Any], url: str) -> SubmissionSummary:
    """Returns the last part of the form.

    Args:
        view: the whole form, see new_view.page_view.
        url: of this service, as the reader reaches it.
    """
    values: Values = view["values"]
    toolchain, _ = new_form.target_of(values)
    severities = [finding.severity for finding in view["findings"]]
    recognized = view["recognized"]
    doubts = [
        bool(view["missing"]),
        toolchain.value in view["unserved"],
        bool(recognized and recognized.is_sure and not recognized.likeliest.is_taken and not view["further"]),
    ]
    problems = [view["model_problem"], view["pictures_problem"], *(each.problem for each in view["further"])]
    jobs = (1 + len(view["further"])) * len(new_form.variants_of(values))
    return SubmissionSummary(
        jobs=jobs,
        warnings=severities.count("warns") + sum(doubts),
        blocks=severities.count("blocks") + sum(map(bool, problems)),
        ahead=conversion.estimates.ahead(),
        forecast_s=conversion.estimates.forecast_s(toolchain.value),
        commands=_build_commands(conversion, user, values, view["open_inputs"], url),
    )


def _build_commands(
    conversion: Conversion, user: str, values: Values, open_inputs: new_form.OpenInputs, url: str
) -> dict[str, str]:
    options, _ = new_form.options_of(values, open_inputs)
    if options is None:
        return {}
    if is_batch(values):
        batch = batch_of(conversion.previews, values, user, {}) if values["model_key"] else None
        return _of_sweep(batch, values, url) if batch else {}
    return _of_job(options, values, url)


def _of_job(options: Options, values: Values, url: str) -> dict[str, str]:
    # The default preprocessing is named as well, since otherwise the recognized one would be used.
    preprocess = options.preprocess.to_json()
    chosen = {**options.model_dump(mode="json", exclude_defaults=True), "preprocess": preprocess}
    tags = new_form.tags_of(values)
    model, images = values["model_name"] or MODEL, values["quant_name"] or IMAGES
    no_cache = values["no_cache"] == "1"
    chosen_besides = (("name", values["name"]), ("tags", list(tags)), ("no_cache", no_cache))
    named = {name: value for name, value in chosen_besides if value}
    keys = {"model_key": values["model_key"] or "…", "quant_key": values["quant_key"] or "…"}
    curl = _post(f"{url}/jobs", {**keys, **named, "options": chosen})
    if "…" in keys.values():
        files = f"-F {shlex.quote(f'model=@{model}')} -F {shlex.quote(f'images=@{images}')}"
        curl = f"curl {files} {url}/uploads\n{curl}"
    given = "".join(f", {name}={value!r}" for name, value in {**named, "options": chosen}.items() if value)
    python = (
        f"from modelmill_client import Modelmill\n\nwith Modelmill({url!r}) as client:\n"
        f"    job = client.convert({model!r}, {images!r}{given})\n    job.wait(progress=True)\n    job.download('out/')"
    )
    flags = [f"--name {shlex.quote(values['name'])}"] if values["name"] else []
    flags += [f"--tag {shlex.quote(tag)}" for tag in tags]
    flags += ["--no-cache"] if no_cache else []
    flags += ["--options options.json", f"--url {url}"]
    cli = (
        f"echo {shlex.quote(json.dumps(chosen))} > options.json\n"
        f"modelmill convert {shlex.quote(model)} {shlex.quote(images)} {' '.join(flags)}"
    )
    return {"curl": curl, "python": python, "cli": cli}


def _of_sweep(batch: Batch, values: Values, url: str) -> dict[str, str]:
    models, variants = [dict(vars(each)) for each in batch.models], [dict(vars(each)) for each in batch.variants]
    name = values["name"] or name_of(values)
    no_cache = {"no_cache": True} if values["no_cache"] == "1" else {}
    body = {"name": name, "tags": list(new_form.tags_of(values)), **no_cache, "models": models, "options": variants}
    flag = "".join(f", {name}={value}" for name, value in no_cache.items())
    python = (
        f"from modelmill_client import Modelmill\n\nwith Modelmill({url!r}) as client:\n"
        f"    sweep = client.sweep(models={models!r}, options={variants!r}, name={name!r}{flag})\n"
        f"    print(client.sweep_table(sweep['sweep_id']))"
    )
    return {"curl": _post(f"{url}/sweeps", body), "python": python}


def _post(url: str, body: Mapping[str, Any]) -> str:
    text = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f"curl -H 'Content-Type: application/json' -d {text} {url}"
