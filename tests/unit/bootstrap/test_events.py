"""What one capability hears of another does not hang on which of them was read first."""

from __future__ import annotations

import pytest

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.joint_inference.model.resource import PLURAL
from app.kit.clock import now
from app.kit.queue.messages import Queue
from app.nodes.model import Side, WorkKey


@pytest.fixture
def container(container: Container) -> Container:
    container.prepare()
    return container


def test_reading_the_container_joins_nothing(container: Container) -> None:
    nodes, listeners = container.nodes, container.nodes.listeners
    heard = (len(listeners.changed), len(listeners.replaced), len(listeners.permitted))
    for name in ("joint", "calibrations", "video", "models", "training", "homes", "authenticator"):
        assert getattr(container, name) is getattr(container, name)
    assert container.nodes is nodes
    assert (len(listeners.changed), len(listeners.replaced), len(listeners.permitted)) == heard == (4, 2, 3)


def test_joint_inference_and_video_hear_of_a_node_where_only_nodes_were_read(container: Container) -> None:
    nodes = container.nodes
    nodes.register("edge0", Side.EDGE, now=now())
    for listen in nodes.listeners.changed:
        listen(nodes.get("edge0"), {WorkKey(PLURAL, "u1", "edge")})
    assert container.broker.waiting(Queue.JOINT) == 1
    assert {"joint", "video"} <= set(vars(container))


def test_whoever_removes_a_user_learns_what_of_theirs_is_under_way_from_all(container: Container) -> None:
    users = container.accounts.users
    users.create("alice", Role.USER, by="admin")
    assert users.busy("alice") == {}
    assert {"training", "joint", "video"} <= set(vars(container))
    assert [work.name for work in users.works] == ["jobs", "training tasks", "services", "video jobs"]
