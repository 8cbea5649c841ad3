"""Arrays as model inputs: .npy files and members of .npz files, read one sample at a time.

A stack of N samples is streamed, whether it is compressed or not, so memory holds one sample. Only a stack in
Fortran order has to be read whole, and only up to WHOLE_BYTES_MAX.
"""

from __future__ import annotations

import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from app.conversion.errors import DamagedSamples, WrongSampleType
from app.conversion.toolchains.samples.spec import InputSpec, static_shape
from app.inference.errors import WrongSampleShape
from app.kit.text.plain_text import reason_of

Array = npt.NDArray[Any]
Opener = Callable[[], IO[bytes]]

WHOLE_BYTES_MAX = 1 << 30
READER_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    EOFError,
    LookupError,
    AttributeError,
    SyntaxError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    UserWarning,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    tokenize.TokenError,
)
"""The exceptions of numpy and zipfile for damaged headers, streams and zip directories."""


@dataclass(frozen=True)
class NpyHeader:
    """The header of an array in npy format, and the offset of its numbers in bytes."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def size_bytes(self) -> int:
        """Returns the size of the numbers."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class ArrayStack:
    """One array that holds `count` samples for one input."""

    label: str
    opener: Opener
    header: NpyHeader
    spec: InputSpec
    count: int

    def samples(self) -> Iterator[Array]:
        """Yields `count` arrays of the input's shape and type.

        Raises:
            DamagedSamples: The file cannot be read to its end.
            WrongSampleType: A value is not finite.
        """
        shape = static_shape(self.spec)
        try:
            with self.opener() as file:
                for index, values in enumerate(self._read_chunks(file, math.prod(shape))):
                    array = values.reshape(shape).astype(self.header.dtype.newbyteorder("="))
                    self._refuse_not_finite(array, index)
                    yield array
        except READER_ERRORS as error:
            raise make_damaged_error(self.label, error) from error

    def _read_chunks(self, file: IO[bytes], size: int) -> Iterator[Array]:
        file.read(self.header.offset)
        dtype = self.header.dtype
        if self.header.is_fortran:
            whole = np.frombuffer(_read_exactly(file, self.header.size_bytes), dtype)
            yield from whole.reshape(self.header.shape, order="F").reshape(self.count, size)
        else:
            for _ in range(self.count):
                yield np.frombuffer(_read_exactly(file, size * dtype.itemsize), dtype)
        while file.read(1 << 16):  # to the end, where a zip member's checksum is compared
            pass

    def _refuse_not_finite(self, array: Array, index: int) -> None:
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            where = f"{self.label}[{index}]" if self.count > 1 else self.label
            raise WrongSampleType(
                f"{where} holds NaN or infinity", hint="Samples must be finite numbers.", detail={"sample": where}
            )


def open_npy(path: Path, label: str, spec: InputSpec) -> ArrayStack:
    """Opens a .npy file.

    Raises:
        DamagedSamples: It cannot be read.
        WrongSampleType, WrongSampleShape: Its arrays do not fit the input.
    """
    return _make_stack(label, lambda: path.open("rb"), path.stat().st_size, spec)


def open_npz(path: Path, label: str, inputs: Mapping[str, InputSpec]) -> dict[str, ArrayStack]:
    """Opens a .npz file: one stack per input, all with the same count.

    Raises:
        DamagedSamples: It cannot be read.
        WrongSampleType, WrongSampleShape: Its arrays do not fit the inputs.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
    except READER_ERRORS as error:
        raise make_damaged_error(label, error) from error
    keys = [name.removesuffix(".npy") for name in sizes if name.endswith(".npy")]
    stacks = {
        name: _make_stack(f"{label}[{key!r}]", _open_member(path, f"{key}.npy"), sizes[f"{key}.npy"], inputs[name])
        for name, key in _keys_of_inputs(keys, list(inputs), label).items()
    }
    if len({stack.count for stack in stacks.values()}) > 1:
        counts = {name: stack.count for name, stack in stacks.items()}
        raise WrongSampleShape(
            f"{label} holds different numbers of samples per input: {counts}",
            hint="Stack the same number of samples for every input on axis 0.",
            detail={"counts": counts},
        )
    return stacks


def make_damaged_error(label: str, error: BaseException) -> DamagedSamples:
    """Returns the error for an array that cannot be read."""
    reason = reason_of(error)
    return DamagedSamples(
        f"{label} cannot be read as an array: {reason}",
        hint="Write it again with numpy.save or numpy.savez, without objects.",
        detail={"reason": reason},
    )


def _keys_of_inputs(keys: list[str], inputs: list[str], label: str) -> dict[str, str]:
    """Returns input name → key. Keys are input names; a single input takes a lone key of any name."""
    if set(inputs) <= set(keys):
        return {name: name for name in inputs}
    if len(inputs) == 1 and len(keys) == 1:
        return {inputs[0]: keys[0]}
    raise WrongSampleShape(
        f"{label} has the keys {keys}, but the model's inputs are {inputs}",
        hint="Save one array per input, under the input's name: numpy.savez(file, **{name: array}).",
        detail={"keys": keys, "inputs": inputs},
    )


def _open_member(path: Path, name: str) -> Opener:
    def opener() -> IO[bytes]:
        with zipfile.ZipFile(path) as archive:
            return archive.open(name)  # the member keeps the file open until it is closed itself

    return opener


def _make_stack(label: str, opener: Opener, size_bytes: int, spec: InputSpec) -> ArrayStack:
    try:
        with opener() as file, warnings.catch_warnings(action="ignore"):
            header = _read_header(file)
            _refuse_cut_short(header, size_bytes)
    except READER_ERRORS as error:
        raise make_damaged_error(label, error) from error
    _check_type(label, header, spec)
    stack = ArrayStack(label, opener, header, spec, _count(label, header, spec))
    if header.is_fortran and header.size_bytes > WHOLE_BYTES_MAX:
        raise WrongSampleShape(
            f"{label} is {header.size_bytes} bytes in Fortran order, which cannot be streamed",
            hint="Save numpy.ascontiguousarray(array).",
        )
    return stack


def _read_header(file: IO[bytes]) -> NpyHeader:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"npy format version {version[0]}.{version[1]} is not known")
    if any(axis < 0 for axis in shape):
        raise ValueError(f"negative axis in the shape {shape}")
    return NpyHeader(shape, is_fortran and len(shape) > 1, dtype, file.tell())


def _refuse_cut_short(header: NpyHeader, size_bytes: int) -> None:
    """Refuses a file that is cut off. Python objects have no size of their own; their type is refused later."""
    expected = header.offset + header.size_bytes
    if size_bytes < expected and not header.dtype.hasobject:
        raise ValueError(f"the file ends early: {expected} bytes were expected, {size_bytes} are there")


def _check_type(label: str, header: NpyHeader, spec: InputSpec) -> None:
    expected = np.dtype(spec.dtype)
    if header.dtype.newbyteorder("=") == expected:
        return
    hint = f"Save array.astype(np.{expected.name})."
    if header.dtype.kind in "iub" and expected.kind == "f":
        hint = f"Arrays are not preprocessed: scale and normalize them as in training, then {hint[0].lower()}{hint[1:]}"
    raise WrongSampleType(
        f"{label} is {header.dtype.name}, but the input {spec.name!r} takes {expected.name}",
        hint=hint,
        detail={"file": label, "dtype": header.dtype.name, "expected": expected.name},
    )


def _count(label: str, header: NpyHeader, spec: InputSpec) -> int:
    """Returns the number of samples that an array of this shape holds for the input; any other shape is refused.

    For the input shape [b, ...]: [b, ...] is one sample, and so is the shape without the batch axis if b is 1;
    [N, b, ...] and [N*b, ...] are N.
    """
    shape, expected = header.shape, static_shape(spec)
    count = 0
    if shape == expected or (expected[:1] == (1,) and shape == expected[1:]):
        count = 1
    elif shape[1:] == expected and len(shape) == len(expected) + 1:
        count = shape[0]
    elif len(shape) == len(expected) and shape[1:] == expected[1:] and _is_batched(expected):
        count = shape[0] // expected[0] if shape[0] % expected[0] == 0 else 0
    if count:
        return count
    raise WrongSampleShape(
        f"{label} has the shape {list(shape)}, but the input {spec.name!r} takes {list(expected)}",
        hint="Save one sample with or without the batch axis, or N samples stacked on axis 0.",
        detail={"file": label, "shape": list(shape), "expected": list(expected)},
    )


def _is_batched(expected: tuple[int, ...]) -> bool:
    """Returns whether axis 0 can be a batch. A lone axis above 1 is a vector."""
    return len(expected) > 1 or expected == (1,)


def _read_exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise ValueError(f"the file ends early: {size} bytes were expected, {len(data)} are there")
    return data
