"""Problems of a resource, each with its JSON path. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.joint_inference.errors import InvalidResource
from app.kit.text.json_values import JsonObject

SHOWN = 50
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT = "The sample in ops/samples/helmet/service.yaml has every field."


@dataclass(frozen=True)
class Problem:
    path: str
    message: str


def path_of(parts: Sequence[str | int]) -> str:
    """$.spec.edgeWorker.workerSpec.parameters[0].key, $.metadata.labels['a/b']"""
    return "$" + "".join(_format_step(part) for part in parts)


def refuse(problems: Sequence[Problem], **of_resource: str) -> None:
    """Refuses a resource with problems.

    Args:
        of_resource: its kind, if it is no service.

    Raises:
        InvalidResource: There is at least one.
    """
    if not problems:
        return
    first = problems[0]
    further = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    detail: JsonObject = {"problems": [vars(problem) for problem in problems[:SHOWN]], **of_resource}
    raise InvalidResource(f"{first.path}: {first.message}{further}", hint=_HINT, detail=detail)


def _format_step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{shorten_value(part)!r}]"


def shorten_value(text: str) -> str:
    """Short, and of characters that can be sent."""
    return text.encode("utf-8", "replace").decode()[:100]
