"""Which cut of a job is the one in force."""

from __future__ import annotations

from app.video.pages.what_if import are_same_places


def test_nodes_that_share_an_address_are_different_places() -> None:
    one, other, unnamed = (
        {"s": {"model_id": number, "node_role": "cloud", "node_ip": "127.0.0.1", "node": node}}
        for number, node in enumerate(("cloud0", "cloud1", ""))
    )
    assert are_same_places(one, {"s": {**one["s"], "model_id": 2}})
    assert not are_same_places(one, other)
    assert are_same_places(one, unnamed), "an address alone is enough where no name is known"
    assert not are_same_places(one, {"s": {**one["s"], "node_role": "edge"}})
    assert not are_same_places(one, {**one, "t": one["s"]})
