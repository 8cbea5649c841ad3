"""A client of the training API for programs and the command line. Prints nothing. Its errors: see Remote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from app.kit.cli.api_client import ApiClient
from app.kit.text.json_values import JsonObject

TASKS, SWEEPS, ENVIRONMENTS = "/api/v2/tasks", "/api/v2/task-sweeps", "/api/v2/task-environments"
MOST_LINES = 5000


class TrainingClient(ApiClient):
    def submit(self, spec: bytes, *, idempotency_key: str) -> JsonObject:
        """Safe to repeat with the same key: the response is the same task."""
        headers = {"Content-Type": "application/yaml", "Idempotency-Key": idempotency_key}
        return self._json("POST", TASKS, content=spec, headers=headers)

    def again(
        self, task_id: str, changes: JsonObject | None = None, *, resume: int | str | None = None, idempotency_key: str
    ) -> JsonObject:
        """Submits a task again. The record lists the differences in `changes`.

        Args:
            changes: other values by field, as overrides.trainer.seed; None removes one.
            resume: the checkpoint from which it continues: "last", "best" or a step.
            idempotency_key: as of `submit`.
        """
        body = {"set": changes or {}, "resume": resume}
        return self._json("POST", f"{TASKS}/{task_id}/again", json=body, headers={"Idempotency-Key": idempotency_key})

    def task(self, task_id: str) -> JsonObject:
        return self._json("GET", f"{TASKS}/{task_id}")

    def tasks(self, *, limit: int = 50, **filters: str | None) -> Iterator[JsonObject]:
        """Newest first, page by page, at most `limit`.

        Args:
            filters: workload, state, since, until, q, user.
        """
        yield from self._pages(TASKS, "tasks", limit=limit, filters=filters)

    def cancel(self, task_id: str) -> JsonObject:
        return self._json("POST", f"{TASKS}/{task_id}/cancel")

    def set_priority(self, task_id: str, priority: str) -> JsonObject:
        return self._json("PATCH", f"{TASKS}/{task_id}", json={"priority": priority})

    def release(self, task_id: str) -> JsonObject:
        return self._json("POST", f"{TASKS}/{task_id}/release")

    def log(
        self, task_id: str, *, tail: int = MOST_LINES, attempt_no: int | None = None, text: str = "", process: str = ""
    ) -> bytes:
        """Returns the last lines of an attempt's log.

        Args:
            text: only lines that contain it.
            process: only lines of this process, like "rank 3".

        Raises:
            ApiError: With code LOG_NOT_FOUND: there is none yet.
        """
        given = {"attempt": attempt_no, "q": text or None, "process": process or None}
        params = {"tail": tail, **{name: value for name, value in given.items() if value is not None}}
        with self._answer("GET", f"{TASKS}/{task_id}/logs", params=params) as answer:
            return answer.read()

    def metrics(self, task_id: str, *, names: Sequence[str] = ()) -> JsonObject:
        """The learning curves.

        Args:
            names: the names of the requested curves; none: all.
        """
        return self._json("GET", f"{TASKS}/{task_id}/metrics", params={"name": ",".join(names)})

    def checkpoints(self, task_id: str) -> JsonObject:
        """The checkpoints of a task by step, each with its value of `metric`."""
        return self._json("GET", f"{TASKS}/{task_id}/checkpoints")

    def export(self, task_id: str, checkpoint: int | str = "last", *, onnx: bool, idempotency_key: str) -> JsonObject:
        """A task that makes a model of a checkpoint.

        Args:
            checkpoint: "last", "best" or a step.
            onnx: an ONNX as well.
            idempotency_key: as of `submit`.
        """
        body, headers = {"checkpoint": checkpoint, "onnx": onnx}, {"Idempotency-Key": idempotency_key}
        return self._json("POST", f"{TASKS}/{task_id}/export", json=body, headers=headers)

    def convert(
        self,
        task_id: str,
        artifact: str,
        *,
        images: str = "",
        name: str = "",
        options: JsonObject | None = None,
        idempotency_key: str,
    ) -> JsonObject:
        """Sends a model that a task left to conversion.

        Args:
            artifact: its path in the folder of the task.
            images: a folder or zip of samples; empty: those that the task left beside the model.
            options: of the conversion; what they leave out is as the task describes the model.
            idempotency_key: as of `submit`.
        """
        body = {"artifact": artifact, "images": images, "name": name, "options": options or {}}
        return self._json("POST", f"{TASKS}/{task_id}/convert", json=body, headers={"Idempotency-Key": idempotency_key})

    def register(
        self, task_id: str, artifact: str, name: str, *, new_version: bool = False, note: str = "", idempotency_key: str
    ) -> JsonObject:
        """Keeps a model that a task left under a name in the model registry.

        Args:
            artifact: its path in the folder of the task.
            name: of the model.
            new_version: it becomes the next version where the name exists.
            note: of this version.
            idempotency_key: as of `submit`.
        """
        body = {"artifact": artifact, "name": name, "new_version": new_version, "note": note}
        return self._json("POST", f"{TASKS}/{task_id}/models", json=body, headers={"Idempotency-Key": idempotency_key})

    def submit_sweep(self, spec: bytes, *, idempotency_key: str) -> JsonObject:
        """Submits a task with `vary`. Safe to repeat with the same key."""
        headers = {"Content-Type": "application/yaml", "Idempotency-Key": idempotency_key}
        return self._json("POST", SWEEPS, content=spec, headers=headers)

    def sweep_again(self, sweep_id: str, changes: JsonObject | None = None, *, idempotency_key: str) -> JsonObject:
        """Submits a sweep again. The record lists the differences in `changes`.

        Args:
            changes: By field, as `vary.total_epochs`; None removes it.
        """
        body = {"set": changes or {}}
        headers = {"Idempotency-Key": idempotency_key}
        return self._json("POST", f"{SWEEPS}/{sweep_id}/again", json=body, headers=headers)

    def sweeps(self) -> list[JsonObject]:
        """The last ones, the newest first."""
        sweeps: list[JsonObject] = self._json("GET", SWEEPS)["sweeps"]
        return sweeps

    def sweep(self, sweep_id: str) -> JsonObject:
        """Its tasks, their values and the best one."""
        return self._json("GET", f"{SWEEPS}/{sweep_id}")

    def cancel_sweep(self, sweep_id: str) -> JsonObject:
        return self._json("POST", f"{SWEEPS}/{sweep_id}/cancel")

    def environments(self) -> list[JsonObject]:
        """Those that my tasks may name."""
        environments: list[JsonObject] = self._json("GET", ENVIRONMENTS)["environments"]
        return environments

    def put_environment(self, name: str, document: bytes) -> JsonObject:
        """Add one, or write it anew (administrators)."""
        headers = {"Content-Type": "application/yaml"}
        return self._json("PUT", f"{ENVIRONMENTS}/{name}", content=document, headers=headers)

    def delete_environment(self, name: str) -> None:
        """Administrators."""
        self._delete(f"{ENVIRONMENTS}/{name}")

    def stacks(self, task_id: str) -> list[JsonObject]:
        """Where the processes of a running task are."""
        stacks: list[JsonObject] = self._json("POST", f"{TASKS}/{task_id}/stacks")["stacks"]
        return stacks

    def cluster(self) -> JsonObject:
        return self._json("GET", "/api/v2/cluster")

    def conversion(self, job_id: str) -> JsonObject:
        """The conversion job of a task's result."""
        return self._json("GET", f"/jobs/{job_id}")

    def download(self, job_id: str, folder: Path) -> list[Path]:
        """Downloads the results, reports and logs of a conversion job into the folder."""
        artifacts = self._json("GET", f"/jobs/{job_id}/artifacts")["artifacts"]
        outputs = [
            (Path(artifact["name"]).name, artifact) for artifact in artifacts if "/input/" not in artifact["key"]
        ]
        return [
            self._save(f"/jobs/{job_id}/artifacts/{name}", folder / name, artifact["sha256"])
            for name, artifact in outputs
        ]
