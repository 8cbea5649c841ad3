"""What a task takes of the cluster."""

from __future__ import annotations

from app.training.model import Demand
from app.training.spec import TaskSpec
from app.training.workloads.programs import PROGRAMS


def demand_of(spec: TaskSpec) -> Demand:
    program = PROGRAMS.get(spec.workload)
    if program is None:
        return Demand(1, spec.n_gpus_per_node, spec.cpus, claims_by_group=False)
    cpus_per_gpu = program.cpus_per_gpu if spec.cpus_per_gpu is None else spec.cpus_per_gpu
    return Demand(spec.nnodes, spec.n_gpus_per_node, spec.n_gpus_per_node * cpus_per_gpu, program.driver_cpus)
