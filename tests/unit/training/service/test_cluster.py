"""The picture of the cluster: the scheduler leaves it in Redis, the web reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.training.model import Node
from app.training.service import ClusterPicture, ClusterView, Holder
from tests.harness.valkey import Valkey

NODES = (Node("n1", "10.0.0.1", 8, 4.5, 26, 13), Node("n0", "10.0.0.9", 0, 0, 0, 0, may_train=False))
HOLDERS = (Holder("mvp2-alice-ppo-1", "alice", "ppo", "RUNNING", 4, {"n1": 3.5}),)
SEEN, SINCE = "2026-11-21T10:00:00.000Z", "2026-11-21T10:00:05.000Z"
VIEW = ClusterView(SEEN, NODES, HOLDERS, queued=3)


@pytest.fixture
def picture(valkey: Valkey) -> ClusterPicture:
    return ClusterPicture(valkey.client)


def test_what_was_put_is_what_is_read(picture: ClusterPicture) -> None:
    picture.put(VIEW)
    assert picture.get() == VIEW


def test_without_a_scheduler_there_is_no_picture(picture: ClusterPicture) -> None:
    assert picture.get() is None


def test_a_picture_that_nobody_renews_goes_away(picture: ClusterPicture, valkey: Valkey) -> None:
    picture.put(VIEW)
    assert 55 < valkey.client.ttl("training:cluster") <= 60
    ClusterPicture(valkey.client, ttl_s=7).put(VIEW)
    assert 5 <= valkey.client.ttl("training:cluster") <= 7


def test_while_ray_does_not_answer_the_nodes_are_as_last_seen(picture: ClusterPicture) -> None:
    picture.put(VIEW)
    for _ in range(3):
        picture.put(ClusterView(SINCE, queued=4, unreachable_since=SINCE))
    assert picture.get() == ClusterView(SINCE, NODES, (), 4, SINCE)


def test_a_ray_that_was_never_reached_has_no_nodes(picture: ClusterPicture) -> None:
    view = ClusterView(SINCE, unreachable_since=SINCE)
    picture.put(view)
    assert picture.get() == view


def test_a_cluster_that_answers_and_has_no_nodes_is_shown_without(picture: ClusterPicture) -> None:
    picture.put(VIEW)
    picture.put(replace(VIEW, nodes=()))
    view = picture.get()
    assert view is not None
    assert view.nodes == ()


@pytest.mark.parametrize(
    "text", ["not json", "[]", "{}", '{"nodes": [{"name": "n1"}], "holders": []}', '{"nodes": 3, "holders": []}']
)
def test_a_picture_of_another_version_counts_as_none(picture: ClusterPicture, valkey: Valkey, text: str) -> None:
    valkey.client.set("training:cluster", text)
    assert picture.get() is None
    picture.put(VIEW)
    assert picture.get() == VIEW
