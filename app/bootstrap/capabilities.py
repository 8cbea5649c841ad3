"""The list of all capabilities, in the order in which the web application, the commands and the workers use them."""

from __future__ import annotations

from app.accounts.capability import ACCOUNTS
from app.conversion.capability import CONVERSION
from app.demonstrations.capability import DEMONSTRATIONS
from app.exchange.capability import EXCHANGE
from app.homes.capability import HOMES
from app.joint_inference.capability import JOINT_INFERENCE
from app.model_registry.capability import MODEL_REGISTRY
from app.nodes.capability import NODES
from app.notifications.capability import NOTIFICATIONS
from app.results.capability import RESULTS
from app.shares.capability import SHARES
from app.sweeps.capability import SWEEPS
from app.training.capability import TRAINING
from app.video.capability import VIDEO

CAPABILITIES = (
    ACCOUNTS,
    HOMES,
    CONVERSION,
    TRAINING,
    JOINT_INFERENCE,
    VIDEO,
    RESULTS,
    MODEL_REGISTRY,
    EXCHANGE,
    NODES,
    NOTIFICATIONS,
    SWEEPS,
    SHARES,
    DEMONSTRATIONS,
)
