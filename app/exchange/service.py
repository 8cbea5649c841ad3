"""The operations: fetch a model from a source, push the results of a job. Requested here, carried out by an actor."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from uuid import uuid4

from app.conversion import object_keys
from app.conversion.intake.entry_points import ConvertRequest, EntryPoint
from app.conversion.model import JobRecord, Status, model_origin
from app.conversion.service import Conversion
from app.conversion.service.intake_sandbox import aborts_refused
from app.conversion.service.uploads import FileStart
from app.exchange.errors import (
    BadTarget,
    NothingToExport,
    TargetRefused,
    TooManyTransfers,
    TransferFailed,
    TransferNotFound,
)
from app.exchange.model import Direction, Kind, Transfer, TransferState, read_source, read_target
from app.exchange.store import TransferStore
from app.exchange.transfer.protocol import Access, chunks_of
from app.exchange.transfer_process import run_transfer
from app.kit.clock import to_text
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject

_OneFormat = EntryPoint[ConvertRequest, JsonObject]
CONVERTERS = {
    ".pt2": _OneFormat("app.exchange.converters.exported_program:convert"),
    ".tflite": _OneFormat("app.exchange.converters.tflite:convert"),
}
"""Entry points of the sandbox that convert a file with this ending to ONNX."""
EXPORTS = ("out.nef", "out.bie", "bie.json", "nef.json", "receipt.json")
"""Files of a job that are pushed, if it has them."""
TOLD_EVERY_S = 0.5
MOST_UNFINISHED = 5
"""Unfinished transfers of one user; at most two in all run at a time."""
logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Exchange:
    """Fetches models and pushes results.

    Args:
        access: the operator's settings for hubs and registries.
        start: has an actor carry out a transfer; may raise errors of the queue.
        targets: patterns of places to which results may be pushed.
        time_s: seconds that one transfer may take.
    """

    conversion: Conversion
    store: TransferStore
    access: Access
    _: KW_ONLY
    start: Callable[[str], None]
    targets: Sequence[str]
    time_s: float

    def fetch(self, user: str, source: str, *, now: datetime) -> Transfer:
        """Request a model.

        Raises:
            BadSource: The source is not valid.
            TooManyTransfers: The user has too many unfinished ones.
        """
        return self._request(Transfer(str(uuid4()), Direction.IN, read_source(source).text, user, to_text(now)))

    def push(self, user: str, job_id: str, target: str, *, registered_model: str = "", now: datetime) -> Transfer:
        """Request that a job's results are pushed.

        Args:
            target: hf://owner/name or mlflow://experiment/name; the operator's list must have it.
            registered_model: of MLflow, which gets a new version; empty: none.

        Raises:
            BadTarget: The target is none, or the registered model does not go with it.
            TargetRefused: The operator does not allow it.
            JobNotFound: It is not this user's, either.
            NothingToExport: It has not completed.
            TooManyTransfers: This user has as many in progress as may be.
        """
        record = self.conversion.jobs.known(job_id, user)
        _require_results(record)
        place = read_target(target)
        if not any(fnmatchcase(place.text, pattern) for pattern in self.targets):
            raise TargetRefused(
                f"Results are not pushed to {place.text} here.",
                hint="The operator can allow places with MODELMILL_EXPORT_TARGETS.",
            )
        if registered_model and place.kind is not Kind.RUN:
            raise BadTarget("Only MLflow has registered models.", hint="Leave out registered_model.")
        transfer = Transfer(str(uuid4()), Direction.OUT, place.text, user, to_text(now))
        return self._request(replace(transfer, job_id=job_id, registered_model=registered_model))

    def get(self, user: str, transfer_id: str) -> Transfer:
        """Returns a transfer.

        Raises:
            TransferNotFound: The user has none with this id.
        """
        transfer = self.store.get(transfer_id)
        if transfer.owner != user:
            raise TransferNotFound(f"There is no transfer {transfer_id}.", hint="They are kept for a day.")
        return transfer

    def run(self, transfer_id: str) -> None:
        """Carry out a transfer. Its result is always stored; a second message for an ended one does nothing."""
        transfer = self.store.get(transfer_id)
        if transfer.state is TransferState.RUNNING:  # a message is delivered again if its process has died
            lost = TransferFailed("The process that did it has ended.", hint="Request it again.")
            self._fail(transfer, lost.to_dict())
        if transfer.state is not TransferState.QUEUED:
            return
        transfer = self._put(replace(transfer, state=TransferState.RUNNING))
        try:
            done = self._fetch(transfer) if transfer.direction is Direction.IN else self._push(transfer)
            self._put(replace(done, state=TransferState.COMPLETED, message=""))
        except ModelmillError as error:
            self._fail(transfer, error.to_dict())
        except Exception as error:  # whatever it is, the transfer ends with it, and it goes on
            logger.exception("Transfer %s failed in an unforeseen way.", transfer_id)
            self._fail(transfer, ModelmillError(f"{type(error).__name__}: {error}").to_dict())
            raise

    def _request(self, transfer: Transfer) -> Transfer:
        if self.store.count_unfinished(transfer.owner, within_s=self.time_s) >= MOST_UNFINISHED:
            raise TooManyTransfers(
                f"{MOST_UNFINISHED} transfers of yours have not ended.", hint="Request it when one of them has."
            )
        self._put(transfer)
        self.start(transfer.transfer_id)
        return transfer

    def _put(self, transfer: Transfer) -> Transfer:
        self.store.put(transfer)
        return transfer

    def _fail(self, transfer: Transfer, error: JsonObject) -> None:
        current = self.store.get(transfer.transfer_id)
        self._put(replace(current, state=TransferState.FAILED, error=error, message=""))

    def _fetch(self, transfer: Transfer) -> Transfer:
        uploads, source = self.conversion.uploads, read_source(transfer.place)
        with uploads.intake.folder("fetch-") as folder:
            request = {"folder": str(folder), "max_bytes": uploads.settings.max_model_bytes}
            result = self._run(transfer, request)
            model = self._as_onnx(Path(result["model"]), folder)
            with uploads.new(transfer.owner, origin=source.origin) as upload_id:
                with model.open("rb") as file:
                    key = uploads.store_model(upload_id, chunks_of(file), source.name).key
                if result["beside"]:
                    uploads.store_weights(upload_id, _list_parts(result["beside"]))
                uploads.merge(upload_id)
        done = self.store.get(transfer.transfer_id)
        return replace(done, model_key=key, name=source.name.removesuffix(object_keys.MODEL_ENDING))

    def _as_onnx(self, model: Path, folder: Path) -> Path:
        converter = CONVERTERS.get(model.suffix)
        if converter is None:
            return model
        into = folder / "converted.onnx"
        with aborts_refused("The model could not be converted", hint="Export it to ONNX where it was made."):
            request: ConvertRequest = {"model": str(model), "into": str(into)}
            self.conversion.uploads.intake.run(converter, request, folder)
        return into

    def _push(self, transfer: Transfer) -> Transfer:
        record = self.conversion.jobs.known(transfer.job_id, transfer.owner)
        _require_results(record)
        with self.conversion.uploads.intake.folder("push-") as folder:
            files = {}
            for name in EXPORTS:
                if name in record.artifacts:
                    files[name] = str(folder / name)
                    self.conversion.jobs.objects.get_file(record.artifacts[name].key, folder / name)
            request = {"files": files, "facts": facts_of(record, files), "registered_model": transfer.registered_model}
            result = self._run(transfer, request)
        return replace(self.store.get(transfer.transfer_id), url=result["url"])

    def _run(self, transfer: Transfer, request: JsonObject) -> JsonObject:
        told_at = 0.0

        def note(progress: JsonObject) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= TOLD_EVERY_S or progress["done_bytes"] == progress["total_bytes"]:
                told_at = time.monotonic()
                self._put(replace(transfer, **progress))

        whole = {**request, "direction": transfer.direction, "place": transfer.place, "access": asdict(self.access)}
        return run_transfer(whole, note, time_s=self.time_s)


def facts_of(record: JobRecord, files: Mapping[str, str]) -> JsonObject:
    """Returns the facts of a finished job for a model card or a registry."""
    bie = record.stages["bie"]
    options = record.options.model_dump(mode="json")
    return {
        "job_id": record.job_id,
        "name": record.name,
        "source": model_origin(record.origin),
        "task": (record.intake.get("recognition") or {}).get("task", ""),
        "created_at": record.created_at,
        "toolchain": options["toolchain"],
        "platform": options.get("platform"),
        "preprocess": options["preprocess"],
        "metrics": {name: value for name, value in bie.summary.items() if isinstance(value, int | float | bool)},
        "files": {name: record.artifacts[name].size_bytes for name in files},
        "versions": dict(bie.versions),
    }


def _require_results(record: JobRecord) -> None:
    if record.status is not Status.COMPLETED:
        raise NothingToExport(
            f"Job {record.job_id} is {record.status}: it has made nothing to export.", hint="Wait for a good end."
        )


def _list_parts(beside: Mapping[str, str]) -> Any:
    for name, path in beside.items():
        yield FileStart(name)
        with Path(path).open("rb") as file:
            yield from chunks_of(file)
