"""A client of the API of services for programs and the command line. Prints nothing. Its errors: see Remote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from modelmill_client.inputs import zipped

from app.joint_inference.errors import BadSamples
from app.joint_inference.model.sample_files import is_member, is_picture
from app.kit.errors import NotFound
from app.kit.text.json_values import JsonObject
from app.results.client import ResultsClient

SERVICES = "/api/v2/services"


class JointClient(ResultsClient):
    """Rows, rules and sinks by path_of."""

    def apply(self, resource: Any) -> tuple[JsonObject, bool]:
        """Create, or replace what has this namespace and name. True: it is new. The same again does no harm."""
        with self._answer("POST", SERVICES, params={"apply": "true"}, json=resource) as answer:
            answer.read()
            return dict(answer.json()), answer.status_code == 201

    def service(self, namespace: str, name: str) -> JsonObject:
        return self._json("GET", path_of(namespace, name))

    def services(self, *, limit: int = 50, **filters: str | None) -> Iterator[JsonObject]:
        """Newest first, page by page, at most `limit`.

        Args:
            filters: namespace, q, state.
        """
        yield from self._pages(SERVICES, "services", limit=limit, filters=filters)

    def change_rollout(self, namespace: str, name: str, action: str) -> JsonObject:
        """action: pause, resume, roll-back, retry or promote."""
        return self._json("POST", f"{path_of(namespace, name)}/rollout", json={"action": action})

    def calibrate(self, namespace: str, name: str, folder: str = "") -> JsonObject:
        """Start a calibration with a folder of the data home.

        Args:
            folder: of the data set; empty: where the service keeps its hard samples.
        """
        return self._json("POST", f"{path_of(namespace, name)}/calibrations", json={"folder": folder})

    def calibrate_with(self, namespace: str, name: str, samples: Path) -> JsonObject:
        """Start a calibration with files of this machine, in constant memory.

        Args:
            samples: a zip of pictures with their labels, a folder of them, or an .npz.

        Raises:
            NotFound: There is nothing at this path.
            BadSamples: The folder has no pictures.
        """
        file_name = f"{samples.resolve().name}.zip" if samples.is_dir() else samples.name
        with _pack(samples) as packed, packed.open("rb") as file:
            return self._json("POST", f"{path_of(namespace, name)}/calibrations", files={"samples": (file_name, file)})

    def calibration(self, namespace: str, name: str, calibration_id: str) -> JsonObject:
        """With the settings of the Pareto front, once it is READY."""
        return self._json("GET", f"{path_of(namespace, name)}/calibrations/{quote(calibration_id, safe='')}")

    def drift(self, namespace: str, name: str) -> JsonObject:
        """{reference, threshold, measured}; all None if the service is not watched."""
        return self._json("GET", f"{path_of(namespace, name)}/drift")

    def watch_drift(self, namespace: str, name: str, reference: JsonObject) -> JsonObject:
        """reference: {calibration_id}, or {since, until}; and threshold, if not the usual one."""
        return self._json("PUT", f"{path_of(namespace, name)}/drift", json=reference)

    def stop_drift(self, namespace: str, name: str) -> None:
        self._delete(f"{path_of(namespace, name)}/drift")

    def delete(self, namespace: str, name: str) -> None:
        """Its workers are ended first: for a while it is still there, with a deletionTimestamp."""
        self._delete(path_of(namespace, name))


@contextmanager
def _pack(samples: Path) -> Iterator[Path]:
    if not samples.is_dir():
        if not samples.is_file():
            raise NotFound(f"There is no {samples}.", hint="Samples are a zip, a folder or an .npz.")
        yield samples
        return
    files = [(path.relative_to(samples), path) for path in sorted(samples.rglob("*")) if path.is_file()]
    members = [(inside.as_posix(), path) for inside, path in files if is_member(inside)]
    if not any(is_picture(path) for _, path in members):
        raise BadSamples(f"There is no JPEG or PNG in {samples}.", hint="Name the folder with pictures and labels.")
    with zipped(members) as archive:
        yield archive


def path_of(namespace: str, name: str) -> str:
    return f"{SERVICES}/{quote(namespace, safe='')}/{quote(name, safe='')}"
