"""What of a node a user sees, by who may use it and its cameras."""

from __future__ import annotations

import pytest

from app.kit.access import BadAccess, Member
from app.nodes.grants import Grants, read_grants, visible_node
from app.nodes.model import Node, NodeReport, Side

OFFERS = {
    "videojobs": {"address": "10.0.0.9:9100", "videos": {"0": {"type": "door"}, "1": {"type": "yard"}}},
    "jointinferenceservices": {"sources": {"/data": {}}},
    "odd": "nonsense",
}
NODE = Node("edge0", Side.EDGE, "2026-11-20T11:00:00.000Z", report=NodeReport(cores=4, offers=OFFERS))
ALICE, BOSS = Member("alice", ("lab",)), Member("boss", is_admin=True)


def test_without_a_list_everybody_sees_all_of_it() -> None:
    assert visible_node(Member("anybody"), NODE, Grants()) == NODE
    assert Grants() == read_grants({}) == read_grants({"allowed": None, "videos": {"0": None}})


def test_who_is_not_on_the_nodes_list_sees_none_of_it_whatever_its_cameras_say() -> None:
    grants = read_grants({"allowed": ["bob"], "videos": {"0": ["alice"]}})
    assert visible_node(ALICE, NODE, grants) is None
    assert visible_node(Member("bob"), NODE, grants) is not None
    assert visible_node(BOSS, NODE, grants) == NODE


def test_a_camera_for_fewer_is_not_there_for_the_others() -> None:
    grants = read_grants({"videos": {"0": ["@lab"], "1": ["bob"]}, "sources": {"/data": []}})
    seen = visible_node(ALICE, NODE, grants)
    assert seen is not None and seen.report.cores == 4
    assert seen.report.offers == {
        "videojobs": {"address": "10.0.0.9:9100", "videos": {"0": {"type": "door"}}},
        "jointinferenceservices": {"sources": {}},
        "odd": "nonsense",
    }
    assert NODE.report.offers == OFFERS, "others still see it"


def test_what_is_written_down_is_read_again() -> None:
    grants = read_grants({"allowed": ["bob", "@lab"], "videos": {"0": []}, "sources": {"rtsp://10.0.0.*/cam": ["bob"]}})
    assert read_grants(grants.to_json()) == grants
    with pytest.raises(BadAccess):
        read_grants({"videos": {"0": ["No Name"]}})
