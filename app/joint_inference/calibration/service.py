"""The operations on calibrations: request one, run it, read its result, apply one of its settings."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Connection

from app.inference.model_card import MODEL_CARD, ModelCard
from app.joint_inference.calibration import store
from app.joint_inference.calibration.model import TIME_S, Calibration, CalibrationRequest, State
from app.joint_inference.calibration.predictions import SamplePredictions
from app.joint_inference.calibration.sweep import SWEEP, Setting, Sweep
from app.joint_inference.errors import BadSamples, CalibrationNotFound, NotReady
from app.joint_inference.model.resource import Role, Service, Specification
from app.joint_inference.service import Services
from app.joint_inference.service.collection import HardSampleCollection, collection_folder
from app.joint_inference.worker_options import edge_options
from app.kit.clock import to_text
from app.kit.errors import ModelmillError, TooMany
from app.kit.files import make_private
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.blobs import blob_key
from app.kit.objects.content import read_json
from app.kit.sandbox.leftovers import remove_tree
from app.kit.sandbox.runner import Hooks, Limits, Sandbox
from app.kit.sql import Database
from app.kit.text.json_values import JsonObject
from app.model_registry.model import ModelUse, Usage
from app.model_registry.service import Models

RUN = "app.joint_inference.calibration.evaluation:run"
MAX_SET_BYTES = 512 << 20
KEPT = 20
"""How many of a user are kept; a new one replaces the oldest."""
MOST_OPEN = 3
"""How many of a user may wait or run."""
TOLD_EVERY_S = 0.5
logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Calibrations:
    """The calibrations of all users. Another user's calibration does not exist for an operation.

    Args:
        models: registered networks.
        collection: hard samples in data homes.
        sandbox: in which labels and pictures are read.
        memory_bytes: most that one calibration may take.

    Attributes:
        start: has the calibration of an id run soon.
        work: the folder of this host for calibrations in progress.
    """

    database: Database
    objects: ObjectStore
    models: Models
    services: Services
    sandbox: Sandbox
    _: KW_ONLY
    collection: HardSampleCollection
    start: Callable[[str], None]
    work: Path
    memory_bytes: int

    def ask(self, user: str, namespace: str, name: str, samples: Path, set_name: str, *, now: datetime) -> Calibration:
        """Request a calibration.

        Args:
            samples: a zip of pictures or an .npz, which is copied.
            set_name: how its user calls the samples.

        Raises:
            ServiceNotFound: It is not this user's, either.
            TooMany: This user has as many in progress as may be.
            BadSamples: The file is empty.
        """
        specification = self.services.get(user, namespace, name).specification
        size = samples.stat().st_size
        if not size:
            raise BadSamples("No samples were sent.", hint="Choose a zip of pictures or an .npz file.")
        self._refuse_too_many(user, now)
        request = CalibrationRequest(
            namespace, name, specification.edge.model, specification.cloud.model, set_name, size
        )
        created = Calibration(str(uuid4()), user, to_text(now), State.WAITING, request)
        self.objects.put_file(_build_key(created.calibration_id, "samples"), samples)
        with self.database.write() as conn:
            store.add(conn, created)
            old = [former for former in store.of_owner(conn, user)[KEPT:] if not former.is_under_way(now)]
            for former in old:
                store.remove(conn, former.calibration_id)
        for former in old:
            self.objects.delete_prefix(_build_key(former.calibration_id, ""))
        try:
            self.start(created.calibration_id)
        except ModelmillError:
            with self.database.write() as conn:
                store.remove(conn, created.calibration_id)
            self.objects.delete_prefix(_build_key(created.calibration_id, ""))
            raise
        return created

    def ask_of_collected(self, user: str, namespace: str, name: str, folder: str, *, now: datetime) -> Calibration:
        """Request a calibration with hard samples that were kept, and with the boxes in their annotations as truth.

        Args:
            folder: in the user's data home; empty: where the service keeps its own.

        Raises:
            ServiceNotFound, TooMany: As of `ask`.
            BadSamples: There are none.
        """
        folder = folder.strip().strip("/") or collection_folder(self.services.get(user, namespace, name))
        if not folder:
            hint = "Give its edge worker the parameter collect, such as datasets/door, or send samples of your own."
            raise BadSamples("This service keeps no hard samples.", hint=hint)
        make_private(self.work)
        with tempfile.TemporaryDirectory(prefix="collected-", dir=self.work) as work:
            packed = Path(work) / "set.zip"
            self.collection.pack(user, folder, packed, most_bytes=MAX_SET_BYTES)
            return self.ask(user, namespace, name, packed, folder, now=now)

    def get(self, user: str, calibration_id: str) -> Calibration:
        with self.database.read() as conn:
            calibration = store.find(conn, calibration_id)
        if calibration is None or calibration.owner != user:
            raise CalibrationNotFound(f"There is no calibration {calibration_id!r} (any more).")
        return calibration

    def of_service(self, user: str, namespace: str, name: str) -> list[Calibration]:
        """Newest first."""
        with self.database.read() as conn:
            calibrations = store.of_owner(conn, user)
        service = (namespace, name)
        return [entry for entry in calibrations if (entry.request.namespace, entry.request.name) == service]

    def sweep(self, user: str, calibration_id: str) -> Sweep:
        calibration = self.get(user, calibration_id)
        try:
            if calibration.state is State.READY:
                return SWEEP.read(read_json(self.objects, _build_key(calibration_id, "sweep.json")))
        except ObjectMissing:
            raise CalibrationNotFound(f"What calibration {calibration_id!r} found is gone.") from None
        raise NotReady("This calibration has nothing to choose from.", hint="Wait for its end, or start another.")

    def answers(self, user: str, calibration_id: str) -> list[SamplePredictions]:
        """Returns what both models answered to each sample.

        Raises:
            CalibrationNotFound: There is none, or its result is gone.
            NotReady: It has no result.
        """
        self.sweep(user, calibration_id)
        content = read_json(self.objects, _build_key(calibration_id, "answers.json"))
        return [SamplePredictions.from_json(answer) for answer in content["answers"]]

    def class_names(self, service: Service, *, now: datetime) -> tuple[str, ...]:
        """Returns the names of the classes that its edge worker reports, by number.

        Raises:
            BadSamples: Its model is gone.
        """
        edge = service.specification.edge
        return edge_options(edge.parameters).labels or self._find_card(service.owner, edge.model, now).labels

    def apply(self, user: str, calibration_id: str, setting: Setting, *, now: datetime) -> Service:
        """Write a setting into the service that it was measured for.

        Args:
            setting: one of those that were measured.

        Raises:
            CalibrationNotFound, ServiceNotFound: One of them is gone.
            InvalidResource: The service does not take it.
        """
        request = self.get(user, calibration_id).request
        parameters = [{"key": key, "value": value} for key, value in setting.parameters.items()]
        algorithm = {"name": setting.algorithm, "parameters": parameters}
        patch = {"spec": {"edgeWorker": {"hardExampleAlgorithm": algorithm}}}
        return self.services.merge(user, request.namespace, request.name, patch, now=now)

    def run(self, calibration_id: str, *, now: datetime) -> None:
        """Run a calibration, for the actor. One that has ended stays as it is."""
        with self.database.write() as conn:
            if not store.change(conn, calibration_id, state=State.RUNNING.value):
                return
            calibration = store.find(conn, calibration_id)
        assert calibration is not None
        try:
            self._run(calibration, now)
            end: dict[str, str | int] = {"state": State.READY.value, "progress": 100}
        except ModelmillError as error:
            end = _fail(error)
        except Exception:  # the edge of the actor: a page waits for an end
            logger.exception("Calibration %s failed.", calibration_id)
            end = _fail(ModelmillError("Something broke in this server.", hint="The worker's log says what."))
        with self.database.write() as conn:
            store.change(conn, calibration_id, **end)
        self.objects.delete(_build_key(calibration_id, "samples"))

    def _refuse_too_many(self, user: str, now: datetime) -> None:
        with self.database.read() as conn:
            waiting = [entry for entry in store.of_owner(conn, user) if entry.is_under_way(now)]
        if len(waiting) >= MOST_OPEN:
            raise TooMany(
                f"{len(waiting)} calibrations of yours wait or run already.", hint="Try again once one has ended."
            )

    def _run(self, calibration: Calibration, now: datetime) -> None:
        service = self.services.get(calibration.owner, calibration.request.namespace, calibration.request.name)
        specification = service.specification
        cards = {role: self._find_card(calibration.owner, specification.worker(role).model, now) for role in Role}
        make_private(self.work)
        folder = Path(tempfile.mkdtemp(prefix="calibration-", dir=self.work))
        try:
            self.objects.get_file(_build_key(calibration.calibration_id, "samples"), folder / "samples")
            request = self._request(cards, specification, folder)
            limits = Limits(self.memory_bytes, TIME_S, 1)
            hooks = Hooks(on_progress=self._make_reporter(calibration.calibration_id))
            self.sandbox.run(RUN, request, work_dir=folder, limits=limits, hooks=hooks)
            for name in ("answers.json", "sweep.json"):
                key = _build_key(calibration.calibration_id, name)
                self.objects.put_file(key, folder / name, content_type="application/json")
        finally:
            remove_tree(folder)

    def _find_card(self, user: str, name: str, now: datetime) -> ModelCard:
        model = self.models.find(user, name, now=now)
        if model is None:
            raise BadSamples(
                f"There is no model {name!r} (any more).", hint="Register it again, or have the service name another."
            )
        return model.card

    def _request(self, cards: Mapping[Role, ModelCard], specification: Specification, folder: Path) -> JsonObject:
        request: JsonObject = {"samples": str(folder / "samples"), "into": str(folder)}
        for role, card in cards.items():
            request[role.value] = {
                "card": MODEL_CARD.write(card),
                "model": self._fetch(card.sha256, folder),
                "twin": self._fetch(card.twin_sha256, folder),
                "parameters": dict(specification.worker(role).parameters),
            }
        return request

    def _fetch(self, sha256: str, folder: Path) -> str:
        path = folder / sha256
        if not sha256:
            return ""
        try:
            if not path.exists():
                self.objects.get_file(blob_key(sha256), path)
        except ObjectMissing:
            raise BadSamples("The file of a model is gone.", hint="Register the model again.") from None
        return str(path)

    def _make_reporter(self, calibration_id: str) -> Callable[[float, str], None]:
        told_at = 0.0

        def tell(share: float, _: str) -> None:
            nonlocal told_at
            if time.monotonic() - told_at < TOLD_EVERY_S:
                return
            told_at = time.monotonic()
            with self.database.write() as conn:
                store.change(conn, calibration_id, progress=min(99, int(share * 100)))

        return tell


def calibrations_using(conn: Connection, use: ModelUse, *, now: datetime) -> list[Usage]:
    """Calibrations, anybody's, that wait or run and need this of a model, by owner and namespace/name of service."""
    using = {
        (entry.owner, f"{entry.request.namespace}/{entry.request.name}")
        for entry in store.not_ended(conn)
        if entry.is_under_way(now) and use.has(entry.owner, entry.request.edge_model, entry.request.cloud_model)
    }
    return [Usage("calibration", name, owner) for owner, name in sorted(using)]


def _fail(error: ModelmillError) -> dict[str, str | int]:
    return {"state": State.FAILED.value, "error": json.dumps(error.to_dict())}


def _build_key(calibration_id: str, name: str) -> str:
    return f"calibrations/{calibration_id}/{name}"
