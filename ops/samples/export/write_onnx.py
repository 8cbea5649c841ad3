"""The ONNX of a language model, by Hugging Face's optimum: `write_onnx.py MODEL FOLDER`, run by export.py.

Without FOLDER it only tells what is against it. FOLDER holds samples.npy and answer.npy (see export.py), and gets
model.onnx, whose answer must be the same, reference.zip with the samples, and conversion.json with the shapes of both.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

LANGUAGE_MODEL = "ForCausalLM"
TOLERANCE = 1e-3
"""Largest difference of two answers in 32 bits, as a share of the largest value."""
ADVICE = (
    "optimum works with older versions of transformers than verl, so give it a virtual environment of its own on the "
    "nodes (pip install torch optimum[onnxruntime]), and start Ray with MODELMILL_ONNX_PYTHON=/that/bin/python."
)


def main() -> None:
    model, *folder = map(Path, sys.argv[1:])
    config = json.loads((model / "config.json").read_text())
    try:
        import onnxruntime  # noqa: F401
        import optimum.exporters.onnx.model_configs  # noqa: F401  (registers the exporters)
        import transformers
    except ImportError as error:
        sys.exit(f"ModuleNotFoundError: {sys.executable} cannot write ONNX by optimum: {error}. {ADVICE}")
    refuse_unknown(config, transformers.__version__)
    if folder:
        write(model, config, folder[0])


def refuse_unknown(config: dict[str, Any], version: str) -> None:
    """Architectures that optimum has no exporter for."""
    from optimum.exporters.tasks import TasksManager

    architecture, family = (config.get("architectures") or ["?"])[0], config.get("model_type", "?")
    if not architecture.endswith(LANGUAGE_MODEL):
        sys.exit(f"ValueError: {architecture} is no language model of text alone, and only these become ONNX here.")
    try:
        tasks = TasksManager.get_supported_tasks_for_model_type(family, "onnx", library_name="transformers")
    except KeyError:
        tasks = {}
    if "text-generation" not in tasks:
        sys.exit(
            f"ValueError: optimum has no exporter of ONNX for {family} ({architecture}) here, with transformers "
            f"{version}. The model in safetensors can still be made: export without ONNX."
        )


def write(model: Path, config: dict[str, Any], folder: Path) -> None:
    from optimum.exporters.onnx import main_export

    with tempfile.TemporaryDirectory(dir=folder) as name:
        copy = Path(name)
        for path in model.iterdir():
            (copy / path.name).symlink_to(path.resolve())
        (copy / "config.json").unlink()
        (copy / "config.json").write_text(json.dumps(readable_before_5(config)))
        main_export(copy, folder, task="text-generation", dtype="fp32", library_name="transformers")
    compare(folder, config)
    print(f"The ONNX is in {folder.name}/model.onnx.", flush=True)


def readable_before_5(config: dict[str, Any]) -> dict[str, Any]:
    """With the names of before transformers 5, which would otherwise take its defaults for them."""
    rope = config.get("rope_parameters") or {}
    before: dict[str, Any] = {"torch_dtype": config.get("dtype")}
    if "rope_theta" in rope:
        scaling = {name: value for name, value in rope.items() if name not in ("rope_theta", "partial_rotary_factor")}
        before["rope_scaling"] = scaling if rope.get("rope_type", "default") != "default" else None
        before |= {name: rope[name] for name in ("rope_theta", "partial_rotary_factor") if name in rope}
    return {**before, **config}


def compare(folder: Path, config: dict[str, Any]) -> None:
    """With the model's own answer, which another version of transformers gave; and leaves what conversion needs."""
    import numpy as np
    import onnxruntime
    import transformers

    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    samples, expected = np.load(folder / "samples.npy"), np.load(folder / "answer.npy")
    rows = [inputs_of(names, row[None]) for row in samples]
    difference = np.abs(session.run(["logits"], rows[0])[0] - expected).max() / np.abs(expected).max()
    if not difference < TOLERANCE:
        shutil.rmtree(folder)
        sys.exit(
            f"ValueError: the ONNX answers differently from the model (by {difference:.2g} of the largest value), so "
            f"it was deleted: transformers {transformers.__version__}, which optimum used, reads what transformers "
            f"{config.get('transformers_version', '?')} wrote in another way."
        )
    print(f"The ONNX answers like the model: they differ by {difference:.1g} of the largest value.", flush=True)
    with zipfile.ZipFile(folder / "reference.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number, inputs in enumerate(rows):
            buffer = io.BytesIO()
            np.savez(buffer, **inputs)
            archive.writestr(f"{number:03}.npz", buffer.getvalue())
    shapes = {name: list(value.shape) for name, value in rows[0].items()}
    text = json.dumps({"images": "reference.zip", "options": {"input_shapes": shapes}}, indent=2)
    (folder / "conversion.json").write_text(text)
    for name in ("samples.npy", "answer.npy"):
        (folder / name).unlink()


def inputs_of(names: list[str], tokens: Any) -> dict[str, Any]:
    import numpy as np

    known = {
        "input_ids": tokens,
        "attention_mask": np.ones_like(tokens),
        "position_ids": np.arange(tokens.shape[1], dtype=np.int64)[None],
    }
    return {name: known[name] for name in names}


if __name__ == "__main__":
    main()
