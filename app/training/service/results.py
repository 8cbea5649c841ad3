"""The results of a task, and their conversion: by a click, or by `convert:` in its spec after it has succeeded.

Only the wiring knows the conversion capability: see Converter. A spec's conversion happens once: its row in
training_conversions has the time at which the task ended, a process claims that row first, and the id of the job is
derived from the attempt. So if a process dies between submitting the job and recording it, the next one finds the same
job and creates no other. Temporary failures (conversion is full, the object store is unreachable) are retried for a
day; permanent ones remain as a problem that the page shows beside the button.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Protocol
from uuid import UUID

from app.homes.errors import FileMissing
from app.kit.clock import from_text, to_text
from app.kit.errors import BadInput, ModelmillError
from app.training import store
from app.training.errors import TaskNotFinished
from app.training.model import Conversion, State, Task
from app.training.service.model_descriptions import ModelDescription, describe_model
from app.training.service.tasks import Tasks
from app.training.service.views import TaskView
from app.training.spec import ConvertSpec, read_spec

CONVERSION = "CONVERSION"
CLAIM = timedelta(minutes=20)
"""Longer than a submission takes: when another process takes over after the submitter died."""
AGAIN_S = 60
TRIED_FOR = timedelta(days=1)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConversionRequest:
    """A conversion job to create."""

    user: str
    task_id: str
    name: str
    model: str
    """A path in the user's home or the common folder, as in tasks."""
    images: str
    """A path of the same kind."""
    options: Mapping[str, Any]
    """Options of conversion."""
    job_id: str = ""
    """The name of the job, if it is fixed: an existing job of this id is then used."""


class Converter(Protocol):
    def convert(self, request: ConversionRequest) -> str:
        """Submits a conversion job linked to its task, and returns its id.

        Raises:
            ModelmillError: It is refused.
        """


@dataclass(frozen=True)
class RegistrationRequest:
    """A model to register."""

    user: str
    name: str
    model: str
    """A path in the user's home or the common folder, as in tasks."""
    is_next: bool
    """Whether it becomes the next version of an existing model of this name."""
    note: str
    description: ModelDescription


@dataclass(frozen=True)
class RegisteredModel:
    """The model of the registry that a result has become."""

    name: str
    version: int


class Registry(Protocol):
    def register(self, request: RegistrationRequest) -> RegisteredModel:
        """Registers a copy of a model under a name.

        Raises:
            ModelmillError: It is refused.
        """


class Results:
    """Everything belongs to the user.

    Args:
        converter: makes conversion jobs.
        registry: keeps models.
    """

    def __init__(self, tasks: Tasks, converter: Converter, registry: Registry) -> None:
        self.tasks = tasks
        self.database = tasks.database
        self.converter = converter
        self.registry = registry

    def description(self, view: TaskView, artifact: str) -> ModelDescription:
        """What is known of a model that a task left. See `describe_model`.

        Raises:
            FileMissing: There is no such file.
        """
        homes, convert = self.tasks.homes, _read_conversion_spec(view.task)
        return describe_model(homes, view.task.user, _find_folder(view), _require_inside(artifact), convert)

    def convert(
        self,
        user: str,
        task_id: str,
        *,
        artifact: str,
        images: str = "",
        name: str = "",
        options: Mapping[str, Any] | None = None,
        now: datetime,
    ) -> Conversion:
        """Submits a conversion of a task's result.

        Args:
            artifact: path in the last attempt's folder.
            images: the same, or a full path, which starts with /; empty: those that the task left beside the model.
            name: empty: conversion chooses one.
            options: as POST /jobs takes them; what they leave out is as the task describes the model.

        Raises:
            TaskNotFound: It is not this user's, either.
            TaskNotFinished: The task has not succeeded.
            FileMissing, PathRefused, BadInput: The files are invalid, or conversion refuses for another reason.
        """
        view = self._require_succeeded(user, task_id)
        known = self.description(view, artifact)
        if not (images or known.images):
            raise BadInput("images: there are no reference samples beside the model", hint="Name a folder or a zip.")
        job_id = self.converter.convert(
            _request(view, artifact, images or known.images, name, {**known.options, **(options or {})})
        )
        conversion = Conversion(task_id, view.task.latest_attempt_no, artifact, to_text(now), job_id)
        self._note(conversion, to_text(now), by=user)
        return conversion

    def register(
        self, user: str, task_id: str, *, artifact: str, name: str, is_next: bool = False, note: str = ""
    ) -> RegisteredModel:
        """Registers a model that a task left, with what the task knows of it.

        Args:
            artifact: path in the last attempt's folder.
            name: of the model.
            is_next: it becomes the next version where the name exists.
            note: of this version; empty: the task it is from.

        Raises:
            TaskNotFound, TaskNotFinished, FileMissing, PathRefused, BadInput: As of `convert`.
            ModelmillError: What the model registry refuses, as a name that is taken.
        """
        view = self._require_succeeded(user, task_id)
        request = RegistrationRequest(
            user=user,
            name=name,
            model=f"{_find_folder(view)}/{_require_inside(artifact)}",
            is_next=is_next,
            note=note or f"Task {task_id}",
            description=self.description(view, artifact),
        )
        return self.registry.register(request)

    def _require_succeeded(self, user: str, task_id: str) -> TaskView:
        view = self.tasks.get(user, task_id)
        if view.task.state is not State.SUCCEEDED:
            raise TaskNotFinished(
                f"The task has not succeeded: {view.task.state.value}.",
                hint="What it left can be converted once it is SUCCEEDED.",
            )
        return view

    def convert_results(self, task_id: str, *, now: datetime) -> None:
        """Submits the conversion of a spec, for a task that has succeeded. Repeated or concurrent calls create one
        job."""
        with self.database.read() as conn:
            task = store.get_task(conn, task_id)
        if task is None or task.state is not State.SUCCEEDED or task.ended_at is None:
            return
        spec = _read_conversion_spec(task)
        if spec is None:
            return
        claim = Conversion(task_id, task.latest_attempt_no, spec.model, task.ended_at, next_try_at=to_text(now + CLAIM))
        with self.database.write() as conn:
            if not store.claim_conversion(conn, claim, to_text(now)):
                return
        self._note(self._convert_for_spec(task, spec, claim, now), to_text(now), by="spec")

    def due(self, *, now: datetime) -> list[str]:
        """Ids of tasks for convert_results: nobody was notified of them, could convert them then, or survived to the
        end."""
        with self.database.read() as conn:
            due = store.conversions_due(conn, to_text(now))
            return due + store.list_unconverted(conn, "convert", to_text(now - TRIED_FOR))

    def _convert_for_spec(self, task: Task, spec: ConvertSpec, claim: Conversion, now: datetime) -> Conversion:
        """Submits the conversion, and returns the claim with its outcome."""
        try:
            view = self.tasks.get(task.user, task.task_id)
            known = self.description(view, spec.model)
            request = _request(view, spec.model, known.images, spec.name, known.options)
            job_id = self.converter.convert(replace(request, job_id=job_id_of(task)))
        except ModelmillError as error:
            logger.warning("What task %s left is not converted: %s", task.task_id, error.message)
            return replace(claim, problem=error.text, next_try_at=_compute_next_try(error, claim, now))
        return replace(claim, job_id=job_id, next_try_at=None)

    def _note(self, conversion: Conversion, at: str, *, by: str) -> None:
        facts = {
            "artifact": conversion.artifact,
            "job_id": conversion.job_id,
            "problem": conversion.problem,
            "again_at": conversion.next_try_at,
        }
        detail = {"by": by, **{name: value for name, value in facts.items() if value}}
        with self.database.write() as conn:
            noted_before = {(row.created_at, row.problem) for row in store.conversions_of(conn, conversion.task_id)}
            store.put_conversion(conn, conversion)
            if (
                conversion.job_id or (conversion.created_at, conversion.problem) not in noted_before
            ):  # once, however often it is retried
                store.add_event(conn, conversion.task_id, CONVERSION, at, detail)


def job_id_of(task: Task) -> str:
    """The id of the job that the spec requests: the same for every attempt, in the format of other job ids."""
    digest = sha256(f"{task.task_id} {task.latest_attempt_no}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=4))


def _read_conversion_spec(task: Task) -> ConvertSpec | None:
    try:
        spec, _ = read_spec(task.spec_text.encode())
    except ModelmillError as error:  # from an older version of this product
        logger.warning("The spec of task %s cannot be read any more: %s", task.task_id, error.message)
        return None
    return spec.convert


def _request(view: TaskView, artifact: str, images: str, name: str, options: Mapping[str, Any]) -> ConversionRequest:
    task, folder = view.task, _find_folder(view)
    return ConversionRequest(
        user=task.user,
        task_id=task.task_id,
        name=name or task.name or artifact.rpartition("/")[2].rpartition(".")[0],
        model=f"{folder}/{_require_inside(artifact)}",
        images=images if images.startswith("/") else f"{folder}/{images}",
        options=options,
    )


def _require_inside(artifact: str) -> str:
    """Refuses a path that is not in the folder of the task."""
    if artifact.startswith("/"):
        raise BadInput(
            f"artifact: {artifact} is no path in the folder of the task",
            hint="Name it as the task does: model.onnx, or export/model.onnx.",
        )
    return artifact


def _find_folder(view: TaskView) -> str:
    """From the last attempt; its folder may already be in the trash, and is read there as well."""
    folder = view.folders.get(view.task.latest_attempt_no)
    if folder is None or not folder.path:
        raise FileMissing(
            f"The folder of task {view.task.task_id} was deleted, and its model with it.",
            hint="What is to be kept is moved from jobs/ to models/ before that: the page Data does it.",
        )
    return folder.path


def _compute_next_try(error: ModelmillError, claim: Conversion, now: datetime) -> str | None:
    if not error.can_retry or now >= from_text(claim.created_at) + TRIED_FOR:
        return None
    return to_text(now + timedelta(seconds=error.detail.get("retry_after_s", AGAIN_S)))
