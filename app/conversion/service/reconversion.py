"""Converts again with other options, which is how a next action is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from app.conversion.model import JobRecord
from app.conversion.options import Options, goal_or_knobs
from app.conversion.service import Conversion
from app.kit.errors import BadInput
from app.kit.text.merge_patch import merge_patch


def patch_options(options: Options, patch: Mapping[str, Any]) -> Options | None:
    """The options with a JSON merge patch applied; None if they would not be valid."""
    quantization = patch.get("quantization")
    if isinstance(quantization, Mapping):
        patch = {**patch, "quantization": goal_or_knobs(quantization)}
    try:
        return Options.model_validate(merge_patch(options.model_dump(mode="json"), patch))
    except ValidationError:
        return None


def convert_again(
    conversion: Conversion, record: JobRecord, patch: Mapping[str, Any], prediction: Mapping[str, Any] | None = None
) -> JobRecord:
    """Submits the inputs of a job again with changed options, as a new job with the same name.

    Args:
        record: Already checked to be the user's.
        prediction: The predicted effect, see prediction_of.

    Raises:
        BadInput: The patch does not fit the job's options.
        ObjectMissing: The inputs have been deleted.
        TooManyJobs, ToolchainUnserved: As for every submission.
    """
    options = patch_options(record.options, patch)
    if options is None:
        raise BadInput(
            "This change does not fit the options of the job.", hint="Convert it again with changes of your own."
        )
    submission = conversion.submissions.remembered(record.job_id, record.owner)
    changed = replace(submission, options=options, name=record.name, tags=record.tags, prediction=prediction or {})
    return conversion.submissions.submit(changed)
