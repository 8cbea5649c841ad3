"""Narrows down a toolchain crash: the smallest part of the model, with random weights, on which it still crashes.

A crash gives no reason. The model is cut from the end and then from the front, by halves, and each part is tried as the
stage itself would run it, in the sandbox. The remaining part can be given to the toolchain's vendor: it contains none
of the user's weights or pictures. One sandbox child cuts the parts, another tries them.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from app.conversion.object_keys import MODEL
from app.conversion.stages.heartbeat import RunningStage
from app.conversion.stages.workspace import SAMPLES_IN_SCRATCH, Workspace
from app.conversion.toolchains.base import SCRATCH
from app.kit.errors import ModelmillError
from app.kit.sandbox.errors import StageCrashed
from app.kit.sandbox.leftovers import remove_tree
from app.kit.sandbox.paths import SandboxPaths
from app.kit.sandbox.runner import Hooks, Limits, Sandbox
from app.kit.text.json_values import JsonObject

TRIAGE_S = 180.0
"""Total time of all attempts."""
MODEL_BYTES_MOST = 256 << 20
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """The nodes [first, end) of a model, as a separate model."""

    model: Path
    samples: Path
    nodes: tuple[Mapping[str, str], ...]
    """Each {"name", "op_type"}."""
    total: int
    """Nodes of the whole model."""

    def to_json(self) -> JsonObject:
        """Its description in the error of the job."""
        return {"nodes": len(self.nodes), "of": self.total, "operators": [node["op_type"] for node in self.nodes][:20]}


Cut = Callable[[int, int | None], Part]
"""Cuts the part [first, end) of the model, end None: to its end; raises ModelmillError if it is not a valid model."""
Dies = Callable[[Part], bool]
"""Whether the toolchain crashes on it."""


def is_crash(error: BaseException) -> bool:
    """Whether a program crashed instead of reporting an error."""
    detail = error.detail if isinstance(error, ModelmillError) else {}
    returncode = detail.get("returncode")
    return isinstance(error, StageCrashed) or (isinstance(returncode, int) and returncode < 0)


def smallest_failing(cut: Cut, dies: Dies, *, budget_s: float = TRIAGE_S) -> Part | None:
    """Finds the smallest part within the time.

    Returns:
        None if the whole model does not crash with random weights and generated samples: the cause is then in the
        originals.
    """
    deadline = time.monotonic() + budget_s
    whole = cut(0, None)
    if not dies(whole):
        return None
    first, end, best = 0, whole.total, whole

    def try_part(one: int, other: int) -> Part | None:
        try:
            part = cut(one, other)
        except ModelmillError:
            return None
        return part if dies(part) else None

    low = 0
    while end - low > 1 and time.monotonic() < deadline:
        middle = (low + end) // 2
        part = try_part(0, middle)
        if part is None:
            low = middle
        else:
            end, best = middle, part
    high = end
    while high - first > 1 and time.monotonic() < deadline:
        middle = (first + high) // 2
        part = try_part(middle, end)
        if part is None:
            high = middle
        else:
            first, best = middle, part
    return best


CUT = "app.conversion.stages.sub_graph:cut"
STAGE = "app.conversion.stages.child:run_stage"
TRY_S = 60.0
"""A part that takes longer counts as not crashing."""
MEMORY_BYTES = 4 << 30
FOLDER = ".triage"


class TriageRunner:
    """Of one failed stage.

    Args:
        request: The request of the stage's own run.
        places: What the stage may read beside its folder.
    """

    def __init__(
        self, sandbox: Sandbox, space: Workspace, request: JsonObject, places: SandboxPaths, running: RunningStage
    ) -> None:
        self._sandbox, self._space, self._running = sandbox, space, running
        self._request, self._places = request, places
        self._numbers = count()
        self._limits = Limits(MEMORY_BYTES, TRY_S, request["threads"])

    def smallest_failing(self) -> Part | None:
        """See triage.smallest_failing. Parts are kept in the stage's work folder."""
        self._space.folder.joinpath(FOLDER).mkdir(exist_ok=True)
        self._running.report(0.99, "narrowing down where the toolchain died")
        return smallest_failing(self._cut, self._dies, budget_s=TRIAGE_S)

    def _cut(self, first: int, end: int | None) -> Part:
        folder = self._space.folder / FOLDER / f"part-{next(self._numbers)}"
        folder.mkdir()
        part, samples = folder / "part.onnx", folder / "samples.zip"
        request = {
            "model": str(self._space.model),
            "first": first,
            "end": end,
            "shapes": self._request["options"]["input_shapes"] if self._space.stage.before is None else {},
            "output": str(part),
            "samples": str(samples),
        }
        facts = self._sandbox.run(
            CUT, request, work_dir=self._space.folder, limits=self._limits, hooks=self._make_hooks()
        )
        return Part(part, samples, tuple(facts.result["nodes"]), facts.result["total"])

    def _dies(self, part: Part) -> bool:
        """Runs the stage on it, alone in a separate folder."""
        folder = part.model.parent / f"run-{time.monotonic_ns()}"
        scratch = folder / SCRATCH
        scratch.mkdir(parents=True)
        name = MODEL if self._space.stage.before is None else self._space.model.name
        shutil.copyfile(part.model, folder / name)
        shutil.copyfile(part.samples, scratch / SAMPLES_IN_SCRATCH)
        options = {**self._request["options"], "input_shapes": {}}
        request = {
            **self._request,
            "work_dir": str(folder),
            "images": str(scratch / SAMPLES_IN_SCRATCH),
            "options": options,
            "notes": [],
        }
        try:
            self._sandbox.run(
                STAGE, request, work_dir=folder, limits=self._limits, places=self._places, hooks=self._make_hooks()
            )
        except ModelmillError as error:
            return is_crash(error)
        finally:
            remove_tree(folder)
        return False

    def _make_hooks(self) -> Hooks:
        return Hooks(should_stop=lambda: self._running.lost)


def advice_of(part: Part, name: str) -> str:
    """A sentence for the error's hint."""
    operators = ", ".join(dict.fromkeys(node["op_type"] for node in part.nodes))
    return (
        f"{len(part.nodes)} of {part.total} nodes are enough for it to die ({operators}); {name} has them with random "
        "weights, to be given to the toolchain's makers."
    )
