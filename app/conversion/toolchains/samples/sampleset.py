"""The set of reference samples of a job: their files, and each of them as model inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.conversion.errors import DamagedSamples, NoSamples
from app.conversion.options import Preprocess
from app.conversion.sample_kinds import KINDS
from app.conversion.toolchains.samples.arrays import Array, ArrayStack, open_npy, open_npz
from app.conversion.toolchains.samples.pictures import PictureReader
from app.conversion.toolchains.samples.spec import InputSpec
from app.inference.errors import WrongSampleShape
from app.kit.text.json_values import JsonObject

NAMED_AT_MOST = 10


@dataclass(frozen=True)
class Sample:
    """One sample: for every graph input an array of its whole shape (batch included) and its dtype."""

    name: str
    arrays: dict[str, Array]


@dataclass(frozen=True)
class _Source:
    """One file of samples."""

    path: Path
    label: str
    kind: str
    stacks: Mapping[str, ArrayStack]
    """For .npy and .npz files: the arrays by input name."""

    @property
    def count(self) -> int:
        return next((stack.count for stack in self.stacks.values()), 1)


class SampleSet:
    """The samples of a folder, in the order of their names, read again at every iteration, one at a time in memory.

    Creating the set reads array headers only.

    Args:
        inputs: All graph inputs, with static shapes.
        skip_damaged: Omit files that cannot be read instead of raising; `skipped` lists them as {"name", "reason"} once
            they were encountered, so len() is exact after one pass.

    Raises:
        NoSamples, DamagedSamples, WrongSampleShape, WrongSampleType, DynamicShape: The samples cannot be used;
            DamagedSamples names all unreadable arrays.
        BadInput: The options do not fit.
    """

    def __init__(
        self, folder: Path, inputs: Sequence[InputSpec], preprocess: Preprocess, *, skip_damaged: bool = False
    ) -> None:
        self.skipped: list[dict[str, str]] = []
        self._skip_damaged = skip_damaged
        self._inputs = {spec.name: spec for spec in inputs}
        files = _list_sample_files(folder)
        has_pictures = any(kind == "image" for _, _, kind in files)
        self._reader = self._make_picture_reader(preprocess) if has_pictures else None
        self._sources = self._open(files)
        self._refuse_if_empty()

    def __len__(self) -> int:
        return sum(source.count for source in self._list_rest())

    @property
    def names(self) -> list[str]:
        """Returns the names in the order of iteration: the file's path below the folder, with [i] in a stack."""
        return [name for source in self._list_rest() for name in _iterate_names(source)]

    def __iter__(self) -> Iterator[Sample]:
        """Yields the samples.

        Raises:
            DamagedSamples: A file cannot be read, and damaged ones are not skipped.
            WrongSampleType: A value is not finite.
        """
        for source in self._list_rest():
            try:
                yield from self._iterate_samples(source)
            except DamagedSamples as error:
                if not self._skip_damaged:
                    raise
                self._skip(source.label, error)

    def check(self, progress: Callable[[float], None] | None = None) -> JsonObject:
        """Decodes everything once and keeps nothing.

        Args:
            progress: called with the fraction that is done, from 0 to 1.

        Returns:
            {"samples": count, "skipped": [{"name", "reason"}], "kinds": {kind: count}}

        Raises:
            DamagedSamples: With the names of all files that cannot be read.
            NoSamples: None is left.
            WrongSampleType: A sample has another type.
        """
        damaged = []
        for index, source in enumerate(self._list_rest()):
            if progress is not None:
                progress(index / len(self._sources))
            try:
                self._verify(source)
            except DamagedSamples as error:
                damaged.append((source.label, error))
        self._settle(damaged)
        self._refuse_if_empty()
        kinds: Counter[str] = Counter()
        for source in self._list_rest():
            kinds[source.kind] += source.count
        return {"samples": len(self), "skipped": list(self.skipped), "kinds": dict(kinds)}

    def _verify(self, source: _Source) -> None:
        if self._reader is not None and source.kind == "image":
            self._reader.verify(source.path)
            return
        for _ in self._iterate_samples(source):
            pass

    def _list_rest(self) -> list[_Source]:
        gone = {entry["name"] for entry in self.skipped}
        return [source for source in self._sources if source.label not in gone]

    def _iterate_samples(self, source: _Source) -> Iterator[Sample]:
        if self._reader is not None and source.kind == "image":
            yield Sample(source.label, {next(iter(self._inputs)): self._reader.read(source.path)})
            return
        columns = [stack.samples() for stack in source.stacks.values()]
        for name, *arrays in zip(_iterate_names(source), *columns, strict=True):
            yield Sample(name, dict(zip(source.stacks, arrays, strict=True)))

    def _open(self, files: list[tuple[Path, str, str]]) -> list[_Source]:
        sources, damaged = [], []
        for path, label, kind in files:
            try:
                sources.append(_Source(path, label, kind, self._read_stacks(path, label, kind)))
            except DamagedSamples as error:
                damaged.append((label, error))
        self._settle(damaged)
        return sources

    def _read_stacks(self, path: Path, label: str, kind: str) -> Mapping[str, ArrayStack]:
        if kind == "image":
            return {}
        if kind == "npz":
            return open_npz(path, label, self._inputs)
        if len(self._inputs) != 1:
            raise WrongSampleShape(
                f"{label} holds one array, but the model has {len(self._inputs)} inputs: {list(self._inputs)}",
                hint="Send .npz files with one array per input, under the input's name.",
                detail={"file": label, "inputs": list(self._inputs)},
            )
        (spec,) = self._inputs.values()
        return {spec.name: open_npy(path, label, spec)}

    def _make_picture_reader(self, preprocess: Preprocess) -> PictureReader:
        if len(self._inputs) != 1:
            raise WrongSampleShape(
                f"pictures need a model with one input, but this one has {len(self._inputs)}: {list(self._inputs)}",
                hint="Send .npz files with one array per input, under the input's name.",
                detail={"inputs": list(self._inputs)},
            )
        return PictureReader(next(iter(self._inputs.values())), preprocess)

    def _settle(self, damaged: list[tuple[str, DamagedSamples]]) -> None:
        """Records the damaged files as skipped, or refuses them all at once."""
        if damaged and not self._skip_damaged:
            raise _make_damaged_error(damaged)
        for label, error in damaged:
            self._skip(label, error)

    def _skip(self, label: str, error: DamagedSamples) -> None:
        self.skipped.append({"name": label, "reason": str(error.detail.get("reason", error.message))})

    def _refuse_if_empty(self) -> None:
        if self._list_rest():
            return
        reason = "; ".join(f"{entry['name']}: {entry['reason']}" for entry in self.skipped[:NAMED_AT_MOST])
        raise NoSamples(
            f"none of the {len(self.skipped)} reference samples can be read ({reason})",
            hint="Send at least one readable picture or array.",
            detail={"skipped": list(self.skipped)},
        )


def _list_sample_files(folder: Path) -> list[tuple[Path, str, str]]:
    """Returns (path, name below the folder, kind), sorted by name. Hidden files and symbolic links are omitted."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    labelled = sorted((path.relative_to(folder).as_posix(), path) for path in paths)
    visible = [(label, path) for label, path in labelled if not path.name.startswith(".")]
    files = [(path, label, KINDS[path.suffix.lower()]) for label, path in visible if path.suffix.lower() in KINDS]
    if files:
        return files
    others = ", ".join(label for label, _ in visible[:NAMED_AT_MOST])
    raise NoSamples(
        f"there is no reference sample among the {len(visible)} files ({others})" if visible else "there are no files",
        hint=f"Send pictures or arrays: {', '.join(KINDS)}.",
        detail={"files": [label for label, _ in visible[:NAMED_AT_MOST]]},
    )


def _iterate_names(source: _Source) -> Iterator[str]:
    if source.count == 1:
        yield source.label
        return
    for index in range(source.count):
        yield f"{source.label}[{index}]"


def _make_damaged_error(damaged: list[tuple[str, DamagedSamples]]) -> DamagedSamples:
    if len(damaged) == 1:
        message = damaged[0][1].message
    else:
        more = f" and {len(damaged) - NAMED_AT_MOST} more" if len(damaged) > NAMED_AT_MOST else ""
        named = ", ".join(label for label, _ in damaged[:NAMED_AT_MOST])
        message = f"{len(damaged)} reference samples cannot be read: {named}{more}"
    return DamagedSamples(
        message,
        hint="Replace them, or set allow_damaged_images to use the rest.",
        detail={
            "damaged": [label for label, _ in damaged],
            "reasons": {label: error.detail.get("reason", "") for label, error in damaged},
        },
    )
