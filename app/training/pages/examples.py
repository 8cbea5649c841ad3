"""A task of each workload to start with, as YAML with remarks. {home}: the reader's own, as tasks name it. Pure."""

from __future__ import annotations

from app.training.model import Workload

_VERL = """\
# What runs, and on which model.
workload: {workload}
name: {name}
model_id: Qwen/Qwen2.5-0.5B-Instruct   # or model_path: {home}/models/…

# Files of your home, or of {common}.
train_file: {home}/datasets/train.parquet
val_file: {home}/datasets/test.parquet

# All of this at once, or the task waits.
nnodes: 1
n_gpus_per_node: {gpus}

{rollout}total_epochs: 1
save_freq: 50

# Further settings, by verl's own names.
overrides:
{overrides}"""

_SCRIPT = """\
# A program of the common code folder.
workload: script
name: my script
code_path: {common}/code/my-project
program: train.py
args:
- --epochs=3

# Files of your home, or of {common}.
train_file: {home}/datasets/train.csv

# What it needs, on one node.
n_gpus_per_node: 0
cpus: 2

# The ONNX that it leaves goes to conversion.
# convert:
#   model: model.onnx
#   images: {home}/datasets/pictures
"""

_ROLLOUT = """\
# What generates the answers: vllm, sglang or trtllm, whichever the nodes have.
rollout: vllm

"""
_OVERRIDES = {
    Workload.PPO: (
        "  actor_rollout_ref.actor.optim.lr: 1e-6\n"
        "  actor_rollout_ref.actor.use_dynamic_bsz: true   # batches by tokens: no micro batch sizes are needed\n"
    ),
    Workload.GRPO: (
        "  actor_rollout_ref.rollout.n: 5\n"
        "  actor_rollout_ref.actor.checkpoint.save_contents: [model, optimizer, extra, hf_model]\n"
    ),
    Workload.SFT: "  optim.lr: 1e-5\n  checkpoint.save_contents: [model, optimizer, extra, hf_model]\n",
}


def example(workload: Workload, home: str, common: str) -> str:
    if workload is Workload.SCRIPT:
        return _SCRIPT.format(home=home, common=common)
    gpus = 1 if workload is Workload.SFT else 8
    return _VERL.format(
        workload=workload.value,
        name=f"first {workload.value}",
        home=home,
        common=common,
        gpus=gpus,
        overrides=_OVERRIDES[workload],
        rollout="" if workload is Workload.SFT else _ROLLOUT,
    )
