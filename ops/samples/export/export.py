"""A checkpoint of verl's becomes a model as Hugging Face has them (safetensors), and with --onnx an ONNX, too.

Run by a task `script` whose `resume_from` names the checkpoint (MODELMILL_RESUME_FROM), where verl is installed. verl's
own merger puts the parts of all ranks together; Hugging Face's optimum writes ONNX, for architectures that it knows.
The model is left in models/<task> of the home, the ONNX in the folder of the job, from where it is sent to conversion.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import shutil
import sys
from pathlib import Path

MODEL = "model.onnx"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onnx", action="store_true", help="write an ONNX as well")
    has_onnx = parser.parse_args().onnx
    job, checkpoint = Path(os.environ["MODELMILL_JOB_FOLDER"]), Path(os.environ["MODELMILL_RESUME_FROM"])
    if has_onnx and importlib.util.find_spec("optimum.exporters.onnx") is None:
        sys.exit("ValueError: the nodes have no optimum: without it there is no ONNX. Install optimum[onnx] there.")
    merged = job / "huggingface"
    merge(checkpoint, merged)
    kept = job.parents[1] / "models" / os.environ["MODELMILL_TASK_ID"]
    kept.parent.mkdir(exist_ok=True)
    shutil.copytree(merged, kept, dirs_exist_ok=True)
    print(f"The model is in models/{kept.name}: {', '.join(sorted(path.name for path in kept.iterdir()))}", flush=True)
    if has_onnx:
        export(merged, job)


def merge(checkpoint: Path, target: Path) -> None:
    """By verl's merger, in this process."""
    parts = checkpoint / "actor" if (checkpoint / "actor").is_dir() else checkpoint
    backend = "fsdp" if list(parts.glob("model_world_size_*_rank_*.pt")) else "megatron"
    run("verl.model_merger", "merge", "--backend", backend, "--local_dir", str(parts), "--target_dir", str(target))


def export(model: Path, job: Path) -> None:
    """By optimum; of several files that it writes, all stay together."""
    folder = job / "onnx"
    run("optimum.exporters.onnx", "--model", str(model), str(folder))
    print(f"The ONNX is in {folder.name}/{MODEL}.", flush=True)


def run(module: str, *arguments: str) -> None:
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
