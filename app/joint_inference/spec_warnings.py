"""What a valid service says in vain: unknown fields, and parameters that no bundled worker reads. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.joint_inference.model.resource import specification_of
from app.joint_inference.validation import validated, warnings_of

NO_FOLDERS = "It writes no pictures into folders; the page shows the newest hard samples."
SEDNAS = {
    "video_url": "Name what it is to read as `source`.",
    "input_shape": "Name the size as `input_size`, width first, as 736x416.",
    "all_examples_inference_output": NO_FOLDERS,
    "hard_example_edge_inference_output": NO_FOLDERS,
    "hard_example_cloud_inference_output": NO_FOLDERS,
}
"""Parameters of Sedna's own examples, and what stands for them here."""


def advice(resource: Any) -> list[str]:
    """A sentence each. Raises InvalidResource."""
    unknown = [f"The field {path} is not known here and was left out." for path in warnings_of(resource)]
    return [*unknown, *ignored_parameters(validated(resource)["spec"])]


def ignored_parameters(spec: Mapping[str, Any]) -> list[str]:
    """A sentence each. spec: a valid one. A user's own script may read whatever it likes."""
    specification = specification_of(spec)
    return [
        f"The bundled {worker.role} worker does not read the parameter {key!r}. {instead}"
        for worker in (specification.edge, specification.cloud)
        if worker.is_builtin
        for key, instead in SEDNAS.items()
        if key in worker.parameters
    ]
