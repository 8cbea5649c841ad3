"""Where training meets conversion: what a task left becomes a job, by the verbs that pages and API have for it."""

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
from app.homes.home_paths import spot_of
from app.homes.service import Homes
from app.kit.web.http import checked
from app.training.service import ConversionRequest

ORIGIN = "task:"


class _Asked(BaseModel):
    """So that what is wrong with an option is said of options.…"""

    name: Name
    options: Options


class ResultConversions:
    """The Converter of training: copies model and images out of the home, and submits them as the user's own job."""

    def __init__(self, conversion: Conversion, homes: Homes) -> None:
        self.conversion = conversion
        self.homes = homes

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Raises BadInput for what `convert` would refuse whatever the model is like."""
        self.conversion.submissions.check_toolchain(_checked(name, options).options)

    def convert(self, wanted: ConversionRequest) -> str:
        """Raises BadInput, PathRefused, FileMissing, NoImages, TooManyJobs, … as uploads and submissions do."""
        if wanted.job_id and self.conversion.jobs.several([wanted.job_id], wanted.user):
            return wanted.job_id
        asked = _checked(wanted.name, wanted.options)
        taken = self._take(wanted)
        try:
            record = self.conversion.submissions.submit(
                Submission(
                    taken.model_key,
                    taken.quant_key,
                    wanted.user,
                    name=asked.name,
                    options=asked.options,
                    origin=f"{ORIGIN}{wanted.task_id}",
                    job_id=wanted.job_id,
                )
            )
        finally:
            self._discard(taken)  # the job has copies of its own
        return record.job_id

    def _take(self, wanted: ConversionRequest) -> HomeInputs:
        model = self._at(wanted.user, wanted.model, "artifact")
        return copy_inputs(self.conversion.uploads, wanted.user, model, self._at(wanted.user, wanted.images, "images"))

    def _at(self, user: str, path: str, field: str) -> InputPath:
        spot = spot_of(self.homes.options, user, path, field=field)
        files = self.homes.files
        return InputPath(files.common() if spot.is_common else files.home(user), spot.inner)

    def _discard(self, taken: HomeInputs) -> None:
        source = object_keys.source_of(taken.model_key)
        if source is not None:
            self.conversion.uploads.discard(source[1])


def _checked(name: str, options: Mapping[str, Any]) -> _Asked:
    return checked(lambda: _Asked.model_validate({"name": name, "options": options}))
