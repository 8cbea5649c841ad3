"""Turns uploaded inputs into a job: admits it, checks and stores its inputs, creates its record, queues its first
stage.

The limits of active jobs, in total and per user, are checked before the expensive checks of a submission, to save them;
the decisive check happens when the record is created, in the same step.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from app.conversion import model, object_keys
from app.conversion.errors import KeyNotFound
from app.conversion.intake.entry_points import CHECK_SUBMISSION, SubmissionRequest, SubmissionResult
from app.conversion.metrics import JOBS_SUBMITTED
from app.conversion.model import Artifact, JobRecord, Stage, model_origin
from app.conversion.options import Options
from app.conversion.service.admission import Admission
from app.conversion.service.dispatch import Dispatch
from app.conversion.service.intake_sandbox import IntakeSandbox, aborts_refused
from app.conversion.service.uploads import Uploads
from app.conversion.store import JobStore
from app.inference.preprocess_options import read_preprocess
from app.kit.clock import now, to_text
from app.kit.errors import BadInput
from app.kit.objects import ObjectInfo, ObjectMissing, ObjectStore
from app.kit.objects.content import put_json, read_json
from app.kit.observability.tracing import note
from app.kit.sandbox.runner import Sandbox
from app.kit.text.json_values import JsonObject
from app.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submission:
    model_key: str
    quant_key: str
    owner: str
    name: str = ""
    tags: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    origin: str = ""
    """See JobRecord; if empty, that of the model at model_key is used."""
    sweep_id: str = ""
    """See JobRecord."""
    job_id: str = ""
    """Set by a caller that may submit again after a crash and must not create a second job; otherwise empty."""
    prediction: Mapping[str, Any] = field(default_factory=dict)
    """The prediction, if the options are an applied action; see prediction_of."""
    no_cache: bool = False
    """See JobRecord."""
    model_name: str = ""
    """Of the model's file; empty if it is not known."""


@dataclass(frozen=True)
class StoredInput:
    origin: str
    """Of its model, which was fetched or is another job's; empty if it was uploaded."""
    size_bytes: int
    model_name: str


@dataclass(eq=False, repr=False)
class Submissions:
    """Checks inputs and creates jobs from them.

    Args:
        sandbox: checks the inputs.
        uploads: the source of the inputs.
        dispatch: sends the first message of a job.
        admission: decides whether there is room.
    """

    settings: Settings
    store: JobStore
    objects: ObjectStore
    sandbox: Sandbox
    uploads: Uploads
    dispatch: Dispatch
    admission: Admission

    def __post_init__(self) -> None:
        self.intake = IntakeSandbox(self.settings, self.sandbox)

    def submit(self, submission: Submission) -> JobRecord:
        """Creates a job from stored inputs. Invalid inputs raise BadInput, too many jobs TooManyJobs, a toolchain that
        no worker has ToolchainUnserved; nothing is created then."""
        self.check_toolchain(submission.options)
        self.admission.check(submission.owner, submission.options.toolchain)
        given = self._check_key(submission.model_key, submission.owner)
        self._check_key(submission.quant_key, submission.owner)
        submission = replace(submission, origin=submission.origin or given.origin, model_name=given.model_name)
        self._merge_model(submission.model_key)
        job_id = submission.job_id or str(uuid4())
        try:
            copies = self._copy_inputs(job_id, submission)
            checked = self._check_inputs(job_id, submission.options)
            sha256 = checked["sha256"]
            intake: JsonObject = {name: value for name, value in checked.items() if name != "sha256"}
            inputs = {name: Artifact(info.key, info.size_bytes, sha256[name]) for name, info in copies.items()}
            submission = _with_recognized(submission, checked["recognition"])
            if submission.model_name:
                intake["model_name"] = submission.model_name
            if submission.prediction:
                intake["prediction"] = dict(submission.prediction)
            self._keep_request(job_id, submission)
            moment = now()
            record = model.submitted(
                job_id,
                now=to_text(moment),
                owner=submission.owner,
                name=submission.name,
                tags=submission.tags,
                options=submission.options,
                inputs=inputs,
                intake=intake,
                origin=submission.origin,
                sweep_id=submission.sweep_id,
                forecast_s=self.admission.estimates.forecast_s(submission.options.toolchain.value),
                no_cache=submission.no_cache,
            )
            message = self.dispatch.prepare(Stage.ONNX, job_id)
            self.admission.admit(record, score=int(moment.timestamp() * 1_000_000), message=message)
        except BaseException:
            self._undo(job_id, submission.owner)
            raise
        JOBS_SUBMITTED.inc()
        note(job_id=job_id)
        logger.info("Job %s is submitted.", job_id, extra={"job_id": job_id})
        return record

    def remembered(self, job_id: str, owner: str) -> Submission:
        """The submission of this job, also after its record is gone.

        Raises:
            ObjectMissing: There is none.
        """
        request = self.stored_request(job_id, owner)
        return Submission(
            model_key=object_keys.input_(job_id, object_keys.MODEL),
            quant_key=object_keys.input_(job_id, object_keys.IMAGES),
            owner=owner,
            name=request["name"],
            tags=tuple(request["tags"]),
            options=Options.model_validate(request["options"]),
            origin=model_origin(request.get("origin", "")),
            model_name=request.get("model_name", ""),
        )

    def stored_request(self, job_id: str, owner: str) -> JsonObject:
        """The stored submission, with created_at.

        Raises:
            ObjectMissing: There is none.
        """
        request: JsonObject = read_json(self.objects, object_keys.request(job_id))
        if request["owner"] != owner:
            raise ObjectMissing(f"There is no stored submission {job_id}.")
        return request

    def find_input(self, key: str, owner: str) -> StoredInput:
        """Returns what is known of a stored input.

        Raises:
            ObjectMissing: It is no input, another user's, or missing.
        """
        source = object_keys.source_of(key)
        if source is None:
            raise ObjectMissing(f"{key!r} is no input.")
        kind, source_id = source
        stored = self.uploads.record(source_id) if kind == "upload" else self.remembered(source_id, owner)
        if stored.owner != owner:
            raise ObjectMissing(f"{key!r} is another user's.")
        return StoredInput(stored.origin, self.objects.info(key).size_bytes, stored.model_name)

    def check_toolchain(self, options: Options) -> None:
        """Checks that the toolchain is installed.

        Raises:
            BadInput: It is not.
        """
        offered = self.settings.toolchains
        if options.toolchain not in offered:
            raise BadInput(
                f"The toolchain {options.toolchain} is not installed here.",
                hint=f"This installation offers: {', '.join(offered)}.",
            )

    def _check_key(self, key: str, owner: str) -> StoredInput:
        """Checks that a user may use a stored input, and that it is there.

        Returns:
            What is known of it.

        Raises:
            KeyNotFound: It is no input, another user's, or missing.
        """
        try:
            return self.find_input(key, owner)
        except ObjectMissing:
            raise KeyNotFound(
                f"{key!r} is not the key of an uploaded model or of uploaded pictures.",
                hint="Use the model_key and quant_key that POST /uploads returned; uploads are kept for a day.",
            ) from None

    def _merge_model(self, key: str) -> None:
        """Extracts the model from a zip that was PUT directly to the store."""
        kind, source_id = object_keys.source_of(key) or ("", "")
        if kind == "upload":
            self.uploads.merge(source_id)

    def _copy_inputs(self, job_id: str, submission: Submission) -> dict[str, ObjectInfo]:
        """Copies what will be checked: an upload may be written to again as long as its signed link is valid."""
        sources = {object_keys.MODEL: submission.model_key, object_keys.IMAGES: submission.quant_key}
        return {name: self.objects.copy(source, object_keys.input_(job_id, name)) for name, source in sources.items()}

    def _check_inputs(self, job_id: str, options: Options) -> SubmissionResult:
        """Checks the inputs in a child process, because a hostile file must not harm the web server."""
        settings = self.settings
        hint = "Check the model with onnx.checker.check_model, and send fewer or smaller reference pictures."
        with self.intake.folder("intake-") as folder, aborts_refused("The inputs could not be checked", hint=hint):
            for name in (object_keys.MODEL, object_keys.IMAGES):
                self.objects.get_file(object_keys.input_(job_id, name), folder / name)
            request: SubmissionRequest = {
                **self.intake.samples_in(folder),
                "model": str(folder / object_keys.MODEL),
                "options": options.model_dump(mode="json"),
                "is_preprocess_open": "preprocess" not in options.model_fields_set,
                "model_bytes": settings.max_model_bytes,
                "images_bytes": settings.max_images_bytes,
            }
            return self.intake.run(CHECK_SUBMISSION, request, folder)

    def _keep_request(self, job_id: str, submission: Submission) -> None:
        request = {
            "owner": submission.owner,
            "name": submission.name,
            "tags": submission.tags,
            "options": submission.options.model_dump(mode="json"),
            "origin": submission.origin,
            "model_name": submission.model_name,
            "created_at": to_text(now()),
        }
        put_json(self.objects, object_keys.request(job_id), request)
        self.objects.put(object_keys.owned(submission.owner, job_id), [])

    def _undo(self, job_id: str, owner: str) -> None:
        self.store.delete(job_id)
        self.objects.delete(object_keys.owned(owner, job_id))
        self.objects.delete_prefix(object_keys.job(job_id))


def _with_recognized(submission: Submission, recognition: Mapping[str, Any] | None) -> Submission:
    """Applies the recognized preprocessing, if the check has selected it."""
    if not recognition or not recognition["is_taken"]:
        return submission
    preprocess = read_preprocess(recognition["preprocess"])
    logger.info("Preprocessing is taken as recognized: %s. %s", recognition["summary"], recognition["reason"])
    return replace(submission, options=submission.options.model_copy(update={"preprocess": preprocess}))
