"""A node that gets a new token, on another machine perhaps: what the evicted one still runs is not answered."""

from __future__ import annotations

import pytest

from app.bootstrap.container import Container
from app.joint_inference.model.content import OrderContent
from app.joint_inference.model.resource import PLURAL, Role
from app.nodes.model import Operation, Order, Side
from app.video.model.job import JOBS, SERVICES, JobContent, ServicesContent
from tests.harness.joint import nodes as joint
from tests.harness.video import nodes as video


def contents(container: Container, uid: str) -> dict[Role, OrderContent]:
    with container.database.read() as connection:
        orders = container.nodes.orders_of(connection, PLURAL, uid)
    return {Role(order.key.part): OrderContent.from_json(order.content) for order in orders}


def test_both_workers_of_a_service_get_another_secret(container: Container) -> None:
    env = joint.Env(container)
    service = container.joint.services.apply(joint.USER, joint.helmet(), now=env.now)[0]
    env.settle()
    before = contents(container, service.uid)
    container.nodes.register("edge0", Side.EDGE, now=env.now, replace=True)
    env.settle()
    after = contents(container, service.uid)
    assert after[Role.CLOUD].secret != before[Role.CLOUD].secret
    assert after[Role.EDGE].big_model is not None
    assert after[Role.EDGE].big_model.secret == after[Role.CLOUD].secret


def test_a_service_elsewhere_keeps_its_secret(container: Container) -> None:
    env = joint.Env(container)
    service = container.joint.services.apply(joint.USER, joint.helmet(), now=env.now)[0]
    env.settle()
    before = contents(container, service.uid)
    container.nodes.register("another", Side.EDGE, now=env.now)
    container.nodes.register("another", Side.EDGE, now=env.now, replace=True)
    env.settle()
    assert contents(container, service.uid) == before


def standing(orders: list[Order]) -> list[Order]:
    return [order for order in orders if order.operation is not Operation.DELETE]


@pytest.fixture
def env(container: Container) -> video.Env:
    return video.Env(container)


def test_the_hosts_of_a_video_job_get_other_secrets_and_the_job_hears_of_them(env: video.Env) -> None:
    job = env.running()

    def secrets() -> dict[str, str]:
        return {
            node: ServicesContent.from_json(order.content).secret
            for node in ("edge0", "cloud0")
            for order in standing(env.orders(SERVICES, node))
        }

    before = secrets()
    env.container.nodes.register("edge0", Side.EDGE, now=env.now, replace=True)
    assert "" in env.woken and job.uid in env.woken
    env.settle()
    after = secrets()
    assert before.keys() == after.keys() and all(before[node] != after[node] for node in before)
    (order,) = standing(env.orders(JOBS, job.uid))
    assert {host.node: host.secret for host in JobContent.from_json(order.content).hosts} == after
