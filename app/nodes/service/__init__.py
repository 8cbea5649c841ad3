"""The operations on nodes: register, permit, report, order, acknowledge."""

from app.nodes.service.contract import NodeListeners
from app.nodes.service.node_access import NodeAccess
from app.nodes.service.nodes import Nodes
