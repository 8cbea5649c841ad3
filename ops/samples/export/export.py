"""A checkpoint of verl's becomes a model as Hugging Face has them (safetensors), and with --onnx an ONNX, too.

Run by a task `script` whose `resume_from` names the checkpoint (MODELMILL_RESUME_FROM), where verl is installed. verl's
own merger puts the parts of all ranks together. Hugging Face's optimum writes ONNX, for architectures that it knows; it
works with older versions of transformers than verl does, so MODELMILL_ONNX_PYTHON names the interpreter that has it.
The model is left in models/<task> of the home, the ONNX in the folder of the job, from where it is sent to conversion.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

WRITER = Path(__file__).with_name("write_onnx.py")
ROWS, LENGTH = 64, 64
"""Most samples for calibration, and tokens of each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onnx", action="store_true", help="write an ONNX as well")
    has_onnx = parser.parse_args().onnx
    job, checkpoint = Path(os.environ["MODELMILL_JOB_FOLDER"]), Path(os.environ["MODELMILL_RESUME_FROM"])
    parts = checkpoint / "actor" if (checkpoint / "actor").is_dir() else checkpoint
    if has_onnx:
        write_onnx(parts / "huggingface")
    merged = job / "huggingface"
    merge(parts, merged)
    kept = job.parents[1] / "models" / os.environ["MODELMILL_TASK_ID"]
    kept.parent.mkdir(exist_ok=True)
    shutil.copytree(merged, kept, dirs_exist_ok=True)
    print(f"The model is in models/{kept.name}: {', '.join(sorted(path.name for path in kept.iterdir()))}", flush=True)
    if has_onnx:
        folder = job / "onnx"
        folder.mkdir(exist_ok=True)
        write_samples(merged, folder, os.environ.get("MODELMILL_TRAIN_FILE", ""))
        write_onnx(merged, folder)


def merge(parts: Path, target: Path) -> None:
    """By verl's merger, in this process."""
    backend = "fsdp" if list(parts.glob("model_world_size_*_rank_*.pt")) else "megatron"
    sys.argv = ["merge", "merge", "--backend", backend, "--local_dir", str(parts), "--target_dir", str(target)]
    runpy.run_module("verl.model_merger", run_name="__main__", alter_sys=True)


def write_samples(model: Path, folder: Path, data: str) -> None:
    """Leaves samples.npy, rows of tokens of the training data, and answer.npy, what the model answers to the first."""
    import numpy as np
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()  # nosec B615  # a folder
    tokenizer = AutoTokenizer.from_pretrained(model)  # nosec B615
    tokens = [token for text in texts_of(data, tokenizer) for token in tokenizer(text)["input_ids"]]
    rows = np.array(tokens[: len(tokens) // LENGTH * LENGTH], dtype=np.int64).reshape(-1, LENGTH)[:ROWS]
    if not len(rows):
        print("The training data has no text that is understood here: the samples are random tokens.", flush=True)
        rows = np.random.default_rng(0).integers(0, network.config.vocab_size, (ROWS, LENGTH), dtype=np.int64)
    with torch.inference_mode():
        answer = network(input_ids=torch.from_numpy(rows[:1])).logits
    np.save(folder / "samples.npy", rows)
    np.save(folder / "answer.npy", answer.numpy())


def texts_of(data: str, tokenizer: Any) -> list[str]:
    """Of the first conversations or prompts of a Parquet file."""
    from pyarrow import parquet

    if not data.endswith(".parquet") or not Path(data).is_file():
        return []
    file = parquet.ParquetFile(data)
    column = next((name for name in ("messages", "prompt") if name in file.schema_arrow.names), None)
    if column is None:
        return []
    rows = (row for batch in file.iter_batches(ROWS, columns=[column]) for row in batch.column(0).to_pylist())
    return [text_of(row, tokenizer) for row in islice(rows, 16 * ROWS)]


def text_of(row: Any, tokenizer: Any) -> str:
    if isinstance(row, str):
        return row
    return str(tokenizer.apply_chat_template(row, tokenize=False))


def write_onnx(model: Path, *folder: Path) -> None:
    """By optimum; without a folder only what is against it is told."""
    python = os.environ.get("MODELMILL_ONNX_PYTHON") or sys.executable
    # not verl's transformers, which PYTHONPATH may lead to, when the interpreter has its own
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or python == sys.executable}
    ended = subprocess.run([python, str(WRITER), str(model), *map(str, folder)], env=inherited, check=False)
    if ended.returncode:
        sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
