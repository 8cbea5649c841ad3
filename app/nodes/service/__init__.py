"""The verbs of nodes: register, report, order, acknowledge."""

from app.nodes.service.nodes import Nodes, Nudge, OnChange, SecretHashing

__all__ = ["Nodes", "Nudge", "OnChange", "SecretHashing"]
