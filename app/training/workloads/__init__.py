"""What a spec means on the cluster: what it takes of it, and what is submitted to Ray. Pure."""

from app.training.workloads.programs import demand_of
from app.training.workloads.submissions import CHECKPOINTS, submission_of
