"""Bundled programs in the common folder; one is the smallest training: on one CPU, with a curve after a moment."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from app.homes.model import COMMON, HomesOptions
from app.kit.files import data_folder
from app.training.errors import ProgramNotStored
from app.training.spec import TaskSpec

SAMPLE = data_folder("ops/samples/curve")
PROGRAM = "train.py"
CODE = f"code/{SAMPLE.name}"
SPEC = f"""\
workload: script
name: learning curve
code_path: {{common}}/{CODE}
program: {PROGRAM}
n_gpus_per_node: 0
cpus: 1
"""
DIGITS = data_folder("ops/samples/digits")
DIGITS_PROGRAM = "train_torch.py"


def put_sample(homes: HomesOptions, spec: TaskSpec) -> None:
    """Have the program of the task ops/samples/digits/train.yaml, and what it imports, in the common folder. Files that
    are there stay: an administrator may have others of these names.

    Args:
        homes: Where the data homes are.
        spec: A task; nothing is done for others.

    Raises:
        ProgramNotStored: The folder cannot be written.
    """
    code_path = f"{homes.prefix}/{COMMON}/code/{DIGITS.name}"
    if (spec.program, (spec.code_path or "").removesuffix("/")) != (DIGITS_PROGRAM, code_path):
        return
    for name in ("train.py", DIGITS_PROGRAM):
        if not (homes.root / COMMON / "code" / DIGITS.name / name).exists():
            put_program(homes.root, DIGITS, name)


def put_program(homes: Path, sample: Path = SAMPLE, program: str = PROGRAM) -> None:
    """Have a bundled program in the common folder of the data homes, where the nodes find it.

    Args:
        sample: The folder in which it is bundled, and whose name that of the common folder's is.
        program: Its file.

    Raises:
        ProgramNotStored: The folder cannot be written.
    """
    target, source = homes / COMMON / "code" / sample.name / program, (sample / program).read_bytes()
    draft = target.with_name(f".{uuid4().hex}")
    try:
        if target.is_file() and target.read_bytes() == source:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(source)
        draft.replace(target)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise ProgramNotStored(
            f"The program {sample.name}/{program} cannot be stored: {error.strerror}.",
            hint="Whoever runs this installation copies its folder from ops/samples to common/code of the data homes.",
        ) from error
