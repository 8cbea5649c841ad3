"""Hard samples of a service as a data set in the data home of its user."""

from __future__ import annotations

import zipfile
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import Protocol

from app.joint_inference.errors import BadSamples
from app.joint_inference.model.coco import CocoDataset, NoDataset
from app.joint_inference.model.resource import Service
from app.joint_inference.model.sample_files import is_member, is_picture
from app.joint_inference.model.tally import Sample
from app.kit.errors import ModelmillError

COLLECT = "collect"
"""The parameter of the edge worker that names the folder."""
MOST = 1000
"""Pictures of a folder."""
ANNOTATIONS = "annotations.json"
ENDINGS = {"image/jpeg": "jpg", "image/png": "png"}


class HomeFiles(Protocol):
    """Files in data homes. Each may raise ModelmillError."""

    def check(self, folder: str) -> None:
        """May files be written there?"""

    def locked(self, owner: str) -> AbstractContextManager[None]:
        """Only one of those who lock a home at the same time goes on."""

    def read(self, owner: str, path: str) -> bytes:
        """Empty: there is no such file."""

    def list_files(self, owner: str, folder: str) -> list[str]:
        """Paths of the files below a folder; empty: there is no such folder."""

    def write(self, owner: str, path: str, content: bytes) -> None:
        """Instead of what is there; whole, or not at all."""


class HardSampleCollection:
    def __init__(self, files: HomeFiles) -> None:
        self._files = files

    def add(self, service: Service, sample: Sample, picture: bytes, content_type: str) -> str:
        """Keep a sample, unless nothing is to be collected or one like it is there.

        Args:
            service: whose edge worker has seen it.
            picture: encoded as `content_type` says.

        Returns:
            Why it was not kept; empty: it was, or did not have to be.
        """
        folder = collection_folder(service)
        size = _read_size(sample)
        if not folder or size is None:
            return ""
        try:
            self._files.check(folder)
            with self._files.locked(service.owner):  # samples of several nodes come at the same time
                return self._add(service.owner, folder, sample, size, picture, content_type)
        except NoDataset:
            return f"{ANNOTATIONS} there is none in COCO's form"
        except ModelmillError as error:
            return error.message.rstrip(".")

    def _add(
        self, owner: str, folder: str, sample: Sample, size: tuple[int, int], picture: bytes, content_type: str
    ) -> str:
        dhash = str(sample.extra.get("dhash", ""))
        dataset = CocoDataset.read(self._files.read(owner, f"{folder}/{ANNOTATIONS}"))
        if dataset.has_alike(dhash):
            return ""
        if dataset.count >= MOST:
            return f"there are {MOST} already"
        name = f"images/{dataset.next_number():06}.{ENDINGS.get(content_type, 'jpg')}"
        dataset.add(name, sample, size, dhash)
        self._files.write(owner, f"{folder}/{name}", picture)
        self._files.write(owner, f"{folder}/{ANNOTATIONS}", dataset.write())
        return ""

    def pack(self, owner: str, folder: str, into: Path, *, most_bytes: int) -> None:
        """Write a data set as a zip: its annotations and the pictures that they name, or without such a file, all of
        its pictures with their labels.

        Args:
            folder: in the owner's data home.
            into: the zip.
            most_bytes: most that its files may have together.

        Raises:
            BadSamples: There is none, it is damaged, or too large.
            ModelmillError: As the home raises.
        """
        annotations = self._files.read(owner, f"{folder}/{ANNOTATIONS}")
        try:
            names = [ANNOTATIONS, *CocoDataset.read(annotations).file_names]
        except NoDataset:
            raise BadSamples(f"{folder}/{ANNOTATIONS} is not in COCO's form.") from None
        if not annotations:
            paths = self._files.list_files(owner, folder)
            names = [path.removeprefix(f"{folder}/") for path in paths if is_member(PurePosixPath(path))]
        if not any(is_picture(PurePosixPath(name)) for name in names):
            hint = "The edge worker adds hard samples as they occur; others are pictures with their labels."
            raise BadSamples(f"There are no pictures in {folder}.", hint=hint)
        size = 0
        with zipfile.ZipFile(into, "w") as archive:
            for name in dict.fromkeys(names):
                content = self._files.read(owner, f"{folder}/{name}")
                size += len(content)
                if size > most_bytes:
                    raise BadSamples(f"The data set has more than {most_bytes >> 20} MiB.")
                if content:  # one that was deleted is left out
                    archive.writestr(name, content)


def collection_folder(service: Service) -> str:
    """Where its hard samples are kept, in the data home of its user; empty: nowhere."""
    return service.specification.edge.parameters.get(COLLECT, "").strip().strip("/")


def _read_size(sample: Sample) -> tuple[int, int] | None:
    """Width and height of its picture, as the worker says; None: it does not."""
    size = sample.extra.get("preview")
    if not isinstance(size, list) or len(size) != 2 or not all(isinstance(side, int) and side > 0 for side in size):
        return None
    return size[0], size[1]
