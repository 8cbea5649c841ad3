"""Trains the digits classifier in PyTorch, as a Ray job does, and leaves what a conversion needs.

    modelmill train submit ops/samples/digits/train.yaml

Into $MODELMILL_JOB_FOLDER it writes model.onnx, `input` [N,1,8,8] float32 in 0..1 → `logits` [N,10], reference.zip
(100 pictures to calibrate on), test.npz (100 others with labels, which neither has seen), metrics.json, and
conversion.json, from which conversion and the model registry know how pictures are prepared. One CPU is enough. The
pictures come with scikit-learn: nothing is downloaded.
Exit code 2: the folder is not named; 3: a package is missing; 4: the model is not good enough, nothing was written.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import numpy as np
    import onnx
    import onnxruntime  # noqa: F401  # accuracy does: better to hear that it is missing before the training than after
    import torch
    from sklearn.datasets import load_digits
    from torch import nn
    from train import ACCURACY_MIN, SAMPLES, SEED, accuracy, pixels, write_npz, write_reference
except ModuleNotFoundError as missing:
    print(f"There is no Python package {missing.name} on this node.", file=sys.stderr)
    packages = "torch scikit-learn onnx onnxruntime pillow"
    print(f"Install it for {sys.executable}, which runs this job: pip install {packages}", file=sys.stderr)
    sys.exit(3)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

EPOCHS, BATCH, RATE = 12, 32, 0.004
OPSET = 17
FOLDER = "MODELMILL_JOB_FOLDER"
METRICS = "MODELMILL_METRICS_FILE"
DESCRIPTION = {
    "images": "reference.zip",
    "options": {"preprocess": {"color": "GRAY", "scale": 1 / 255}},
    "decoder": "classifier",
    "labels": list("0123456789"),
}
"""What conversion and the model registry take over for this model."""


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def batches(x: Tensor, y: Tensor, shuffling: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    order = torch.randperm(len(x), generator=shuffling)
    for start in range(0, len(x) - 1, BATCH):  # a last batch of one would have no variance to normalize by
        chosen = order[start : start + BATCH]
        yield x[chosen], y[chosen]


def train(model: nn.Module, x: Tensor, y: Tensor, held_x: Tensor, held_y: Tensor) -> None:
    """Adam over a rate that rises and falls once, with a line per epoch."""
    shuffling = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    steps = EPOCHS * len(range(0, len(x) - 1, BATCH))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=steps)
    for epoch in range(1, EPOCHS + 1):
        model.train()
        total = 0.0
        for inputs, labels in batches(x, y, shuffling):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(inputs)
        right = share_right(model, held_x, held_y)
        print(f"epoch {epoch:2}/{EPOCHS}  loss {total / len(x):.4f}  accuracy {right:.2%}", flush=True)
        tell(epoch, loss=total / len(x), accuracy=right, lr=schedule.get_last_lr()[0])


def tell(epoch: int, **figures: float) -> None:
    """A row for the learning curves on the page of the task."""
    if path := os.environ.get(METRICS):
        with Path(path).open("a") as file:
            file.write(json.dumps({"step": epoch, "time": time.time(), **figures}) + "\n")


def share_right(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    with torch.inference_mode():
        return float((model(x).argmax(dim=1) == y).float().mean())


def export(model: nn.Module, path: Path) -> onnx.ModelProto:
    """By the exporter that needs no further package; torch says at each use that there is a newer one."""
    model.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            model,
            (torch.zeros(1, 1, 8, 8),),
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=["input"],
            output_names=["logits"],
            dynamic_axes={"input": {0: "N"}, "logits": {0: "N"}},
        )
    exported = onnx.load(path)
    onnx.checker.check_model(exported, full_check=True)
    return exported


def main() -> int:
    named = os.environ.get(FOLDER)
    if not named:
        print(f"{FOLDER} is not set: a task has it; elsewhere let it name the folder to write to.", file=sys.stderr)
        return 2
    folder = Path(named)
    folder.mkdir(parents=True, exist_ok=True)
    return run(folder)


def run(folder: Path) -> int:
    began = time.monotonic()
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # so small a network is slower on two
    data = load_digits()
    order = np.random.default_rng(SEED).permutation(len(data.images))
    pictures, labels = pixels(data.images[order]), data.target[order].astype(np.int64)
    x = (pictures.astype(np.float32) * np.float32(1 / 255))[:, None]
    test, reference, rest = slice(SAMPLES), slice(SAMPLES, 2 * SAMPLES), slice(SAMPLES, None)
    print(f"torch {torch.__version__}: {len(x) - SAMPLES} pictures to learn from, {SAMPLES} to test on", flush=True)
    model = network()
    inputs, expected = torch.from_numpy(x), torch.from_numpy(labels)
    train(model, inputs[rest], expected[rest], inputs[test], expected[test])
    draft = folder / ".model.onnx"
    reached = accuracy(export(model, draft), x[test], labels[test])
    print(f"accuracy of the exported model on {SAMPLES} pictures it has not seen: {reached:.2%}", flush=True)
    if reached < ACCURACY_MIN:
        draft.unlink()
        print(f"That is below {ACCURACY_MIN:.0%}: nothing was written. Train for more epochs.", file=sys.stderr)
        return 4
    write_reference(folder / "reference.zip", pictures[reference])
    write_npz(folder / "test.npz", {"x": x[test], "y": labels[test]})
    seconds = round(time.monotonic() - began, 2)
    metrics = {"accuracy": reached, "epochs": EPOCHS, "seconds": seconds, "torch": torch.__version__}
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    (folder / "conversion.json").write_text(json.dumps(DESCRIPTION, indent=2) + "\n")
    draft.rename(folder / "model.onnx")
    print(f"model.onnx, reference.zip, test.npz and metrics.json are in {folder} after {seconds} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
