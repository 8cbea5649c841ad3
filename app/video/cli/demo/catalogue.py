"""From a folder of models to the catalog: which models are uploaded, and which stages they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.kit.cli.api_client import ApiError
from app.kit.errors import BadInput
from app.kit.text.json_values import JsonObject
from app.model_registry.client import ModelsClient
from app.video.client import VideoClient

Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """How a stage is made of models."""

    name: str
    kind: str
    variants: Sequence[Sequence[str]]
    """Names of models, big to small; a variant is omitted when one of its models is missing."""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def body(self, models: set[str]) -> JsonObject | None:
        """The body of PUT /stages/<name>; None when there are no models for it."""
        variants = [list(names) for names in self.variants if set(names) <= models]
        return {"kind": self.kind, "models": variants, "parameters": dict(self.parameters)} if variants else None


DECODERS = {
    "face_rfb_640": "ultraface",
    "face_rfb_320": "ultraface",
    "face_slim_320": "ultraface",
    "headpose_fsanet_1x1": "auto",
    "headpose_fsanet_var": "auto",
    "det_yolox_nano_416": "yolox",
    "det_fastestdet_352": "fastestdet",
}
"""Name of a model, which is the stem of its file → its decoder."""
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
class ModelKit:
    """Models, and the stages that are made of them."""

    decoders: Mapping[str, str]
    """Name of a model, which is the stem of its file → its decoder."""
    recipes: Sequence[Recipe]


USUAL = ModelKit(DECODERS, RECIPES)
SAMPLE = ModelKit(
    {
        "sample_faces_640": "ultraface",
        "sample_faces_320": "ultraface",
        "sample_faces_160": "ultraface",
        "sample_poses": "auto",
    },
    (
        Recipe(
            "face_detection", "face_detection", (("sample_faces_640",), ("sample_faces_320",), ("sample_faces_160",))
        ),
        Recipe("face_alignment", "face_alignment", (("sample_poses",),)),
    ),
)
"""For the drawn clip: see app.standalone.sample_models."""


def files_in(folder: Path, kit: ModelKit = USUAL) -> dict[str, Path]:
    """Returns the files of the models of the kit by name.

    Raises:
        BadInput: There is no such folder.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}", hint="Give --models a folder with ONNX models.")
    return {name: file for name in kit.decoders if (file := folder / f"{name}.onnx").is_file()}


def add_stages(url: str, folder: Path, say: Say, kit: ModelKit) -> list[str]:
    """Uploads the models of a folder and makes the stages of them.

    Args:
        say: Is told what is left out, and why.

    Returns:
        The names of the stages.

    Raises:
        BadInput: There is no such folder.
        ApiError: The API refused a stage.
    """
    models = set(_import_models(url, files_in(folder, kit), kit.decoders, say))
    stages = []
    with VideoClient(url) as video:
        for recipe in kit.recipes:
            body = recipe.body(models)
            if body is None:
                needed = ", or ".join(" and ".join(f"{name}.onnx" for name in names) for names in recipe.variants)
                say(f"Stage {recipe.name} is left out: {folder} has no {needed}.")
                continue
            video.put_stage(recipe.name, body)
            stages.append(recipe.name)
    return stages


def _import_models(url: str, files: Mapping[str, Path], decoders: Mapping[str, str], say: Say) -> Iterator[str]:
    """Names of the models that are registered then; one that was registered before stays as it is."""
    with ModelsClient(url) as models:
        present = {str(model["name"]) for model in models.models(limit=1000)}
        for name, file in files.items():
            try:
                if name not in present:
                    models.bring(name, file, decoder=decoders[name], labels=())
            except ApiError as error:
                say(f"The model {file} is left out: {error}")
                continue
            yield name
