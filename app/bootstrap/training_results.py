"""Connects training to conversion: the result of a task becomes a job, with the same operations that pages and API
use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from app.conversion import object_keys
from app.conversion.model import TASK
from app.conversion.options import Options
from app.conversion.schemas import Name
from app.conversion.service import Conversion
from app.conversion.service.home_inputs import HomeInputs, InputPath, copy_inputs, copy_model
from app.conversion.service.submissions import Submission
from app.homes.home_paths import home_path_of
from app.homes.service import Homes
from app.inference.preprocess_options import Preprocess
from app.kit.clock import now
from app.kit.web.http import checked
from app.model_registry.schemas import InstalledDecoder
from app.training.service import ConversionRequest
from app.training.service.results import RegisteredModel, RegistrationRequest

if TYPE_CHECKING:
    from app.model_registry.service import Models


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
        """Refuses what `convert` would refuse for any model, with BadInput."""
        self.conversion.submissions.check_toolchain(_check(name, options).options)

    def convert(self, request: ConversionRequest) -> str:
        """Submits a conversion. Its errors are those of uploads and of submissions."""
        if request.job_id and self.conversion.jobs.several([request.job_id], request.user):
            return request.job_id
        submission = _check(request.name, request.options)
        inputs = self._copy_inputs(request)
        try:
            record = self.conversion.submissions.submit(
                Submission(
                    inputs.model_key,
                    inputs.quant_key,
                    request.user,
                    name=submission.name,
                    options=submission.options,
                    origin=f"{TASK}{request.task_id}",
                    job_id=request.job_id,
                )
            )
        finally:
            self._discard(inputs)  # the job has copies of its own
        return record.job_id

    def _copy_inputs(self, request: ConversionRequest) -> HomeInputs:
        return copy_inputs(
            self.conversion.uploads,
            request.user,
            _find_input(self.homes, request.user, request.model, "artifact"),
            _find_input(self.homes, request.user, request.images, "images"),
        )

    def _discard(self, inputs: HomeInputs) -> None:
        source = object_keys.source_of(inputs.model_key)
        if source is not None:
            self.conversion.uploads.discard(source[1])


class _DescriptionForm(BaseModel):
    """What conversion.json says for the registry."""

    decoder: InstalledDecoder
    preprocess: Preprocess | None


class ResultModels:
    """The Registry of training: copies a model out of the home into the model registry.

    Args:
        models: the model registry, opened when it is first used.
    """

    def __init__(self, conversion: Conversion, homes: Homes, models: Callable[[], Models]) -> None:
        self.conversion = conversion
        self.homes = homes
        self._models = models

    def register(self, request: RegistrationRequest) -> RegisteredModel:
        """Registers a model. Its errors are those of uploads of models."""
        from app.model_registry.model import NewVersion

        models, user, known = self._models(), request.user, request.description
        fields = checked(
            lambda: _DescriptionForm.model_validate({"decoder": known.decoder, "preprocess": known.preprocess})
        )
        versioning = NewVersion(request.is_next, request.note)
        models.check_new(user, request.name, known.labels, versioning)
        model, uploads = _find_input(self.homes, user, request.model, "artifact"), self.conversion.uploads
        with uploads.new(user) as upload_id:
            imported = models.imports.check(upload_id, copy_model(uploads, upload_id, model))
        kept = models.add_received(
            user,
            request.name,
            imported,
            now=now(),
            decoder=fields.decoder,
            labels=known.labels,
            preprocess=fields.preprocess,
            versioning=versioning,
        )
        return RegisteredModel(kept.name, kept.version)


def _find_input(homes: Homes, user: str, path: str, field: str) -> InputPath:
    location = home_path_of(homes.options, user, path, field=field)
    return InputPath(homes.files.tree(user, location), location.inner)


def _check(name: str, options: Mapping[str, Any]) -> _SubmissionForm:
    return checked(lambda: _SubmissionForm.model_validate({"name": name, "options": options}))
