"""From a folder of models to the catalogue: which are brought under which names, and which stages are made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.kit.cli.api_client import ApiClient, ApiError
from app.kit.errors import BadInput
from app.model_registry.client import Client as Models

STAGES = "/api/v2/video/stages"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """Of a stage. variants: names of models, big to small; of each those are used that are there."""

    name: str
    kind: str
    variants: Sequence[Sequence[str]]
    parameters: Mapping[str, str] = field(default_factory=dict)

    def body(self, there: set[str]) -> dict[str, Any] | None:
        """None: there is no model for it."""
        found = [list(names) for names in self.variants if set(names) <= there]
        return {"kind": self.kind, "models": found, "parameters": dict(self.parameters)} if found else None


DECODERS = {
    "face_rfb_640": "ultraface",
    "face_rfb_320": "ultraface",
    "face_slim_320": "ultraface",
    "headpose_fsanet_1x1": "auto",
    "headpose_fsanet_var": "auto",
    "det_yolox_nano_416": "yolox",
    "det_fastestdet_352": "fastestdet",
}
"""Name of a model, which is the stem of its file → how its answers are read."""
DETECTORS = (("det_yolox_nano_416",), ("det_fastestdet_352",))
RECIPES = (
    Recipe("face_detection", "face_detection", (("face_rfb_640",), ("face_rfb_320",), ("face_slim_320",))),
    Recipe(
        "face_alignment",
        "face_alignment",
        (("headpose_fsanet_1x1", "headpose_fsanet_var"), ("headpose_fsanet_var",), ("headpose_fsanet_1x1",)),
    ),
    Recipe("car_detection", "detection", DETECTORS, {"classes": "car,bus,truck"}),
    Recipe("person_detection", "detection", DETECTORS, {"classes": "person"}),
)


@dataclass(frozen=True)
class Kit:
    """decoders: name of a model, which is the stem of its file → how its answers are read. recipes: of the stages that
    are made of them."""

    decoders: Mapping[str, str]
    recipes: Sequence[Recipe]


USUAL = Kit(DECODERS, RECIPES)
SAMPLE = Kit(
    {
        "sample_faces_640": "ultraface",
        "sample_faces_320": "ultraface",
        "sample_faces_160": "ultraface",
        "sample_poses": "auto",
    },
    (
        Recipe(
            "face_detection",
            "face_detection",
            (("sample_faces_640",), ("sample_faces_320",), ("sample_faces_160",)),
        ),
        Recipe("face_alignment", "face_alignment", (("sample_poses",),)),
    ),
)
"""Of the drawn clip: see app.video.cli.demo.sample_models."""


class Catalogue(ApiClient):
    def put(self, name: str, body: Mapping[str, Any]) -> None:
        with self._answer("PUT", f"{STAGES}/{quote(name)}", json=body) as answer:
            answer.read()


def files_in(folder: Path, kit: Kit = USUAL) -> dict[str, Path]:
    """Name → file, of the models that are known by name. Raises BadInput."""
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}", hint="Give --models a folder with ONNX models.")
    return {name: file for name in kit.decoders if (file := folder / f"{name}.onnx").is_file()}


def fill(url: str, folder: Path, say: Say, kit: Kit = USUAL) -> list[str]:
    """Names of the stages that there are then. Raises BadInput, and what the API says is wrong."""
    there = set(_brought(url, files_in(folder, kit), kit.decoders, say))
    made = []
    with Catalogue(url) as catalogue:
        for recipe in kit.recipes:
            body = recipe.body(there)
            if body is None:
                wanted = ", or ".join(" and ".join(f"{name}.onnx" for name in names) for names in recipe.variants)
                say(f"Stage {recipe.name} is left out: {folder} has no {wanted}.")
                continue
            catalogue.put(recipe.name, body)
            made.append(recipe.name)
    return made


def _brought(url: str, files: Mapping[str, Path], decoders: Mapping[str, str], say: Say) -> Iterator[str]:
    """Names of those that are there then; one that was there before stays as it is."""
    with Models(url) as models:
        known = {str(model["name"]) for model in models.models(limit=1000)}
        for name, file in files.items():
            try:
                if name not in known:
                    models.bring(name, file, decoder=decoders[name], labels=())
            except ApiError as error:
                say(f"The model {file} is left out: {error}")
                continue
            yield name
