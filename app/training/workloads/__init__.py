"""The meaning of a spec on the cluster: its demand, and the submission to Ray. Pure."""

from app.training.workloads.programs import demand_of
from app.training.workloads.submissions import CHECKPOINTS, NO_ENVIRONMENT, PLACEMENT, PLACEMENT_FOLDER, submission_of
