"""Connects training to conversion: the result of a task becomes a job, with the same operations that pages and API
use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from app.conversion import object_keys
from app.conversion.options import Options
from app.conversion.schemas import Name
from app.conversion.service import Conversion
from app.conversion.service.home_inputs import HomeInputs, InputPath, copy_inputs
from app.conversion.service.submissions import Submission
from app.homes.home_paths import home_path_of
from app.homes.service import Homes
from app.kit.web.http import checked
from app.training.service import ConversionRequest

ORIGIN = "task:"


class _SubmissionForm(BaseModel):
    """So that errors of an option are reported for options.…"""

    name: Name
    options: Options


class ResultConversions:
    """The Converter of training: copies model and images out of the home, and submits them as the user's own job."""

    def __init__(self, conversion: Conversion, homes: Homes) -> None:
        self.conversion = conversion
        self.homes = homes

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Raises BadInput for what `convert` would refuse for any model."""
        self.conversion.submissions.check_toolchain(_checked(name, options).options)

    def convert(self, request: ConversionRequest) -> str:
        """Raises BadInput, PathRefused, FileMissing, NoImages, TooManyJobs, … like uploads and submissions."""
        if request.job_id and self.conversion.jobs.several([request.job_id], request.user):
            return request.job_id
        submission = _checked(request.name, request.options)
        inputs = self._copy_inputs(request)
        try:
            record = self.conversion.submissions.submit(
                Submission(
                    inputs.model_key,
                    inputs.quant_key,
                    request.user,
                    name=submission.name,
                    options=submission.options,
                    origin=f"{ORIGIN}{request.task_id}",
                    job_id=request.job_id,
                )
            )
        finally:
            self._discard(inputs)  # the job has copies of its own
        return record.job_id

    def _copy_inputs(self, request: ConversionRequest) -> HomeInputs:
        model = self._input_path(request.user, request.model, "artifact")
        return copy_inputs(
            self.conversion.uploads, request.user, model, self._input_path(request.user, request.images, "images")
        )

    def _input_path(self, user: str, path: str, field: str) -> InputPath:
        location = home_path_of(self.homes.options, user, path, field=field)
        return InputPath(self.homes.files.tree(user, location), location.inner)

    def _discard(self, inputs: HomeInputs) -> None:
        source = object_keys.source_of(inputs.model_key)
        if source is not None:
            self.conversion.uploads.discard(source[1])


def _checked(name: str, options: Mapping[str, Any]) -> _SubmissionForm:
    return checked(lambda: _SubmissionForm.model_validate({"name": name, "options": options}))
