"""Services as lines."""

from __future__ import annotations

from typing import Any

from app.joint_inference.cli.tables import rollout_lines


def rollout(state: str, **fields: Any) -> dict[str, Any]:
    versions = {
        key: {"model": "faces", "version": n, "sha256": str(n) * 64} for key, n in (("former", 2), ("target", 3))
    }
    return {"state": state, **versions, "wave": 0, "nodes": [], "reason": "", **fields}


def test_a_roll_out_is_a_line_with_its_nodes_below() -> None:
    assert list(rollout_lines(rollout("complete"))) == ["rollout    complete  faces@3 on all nodes"]
    assert list(rollout_lines(rollout("progressing", wave=1, nodes=["cam0", "cam1"]))) == [
        "rollout    progressing  faces@2 -> faces@3  wave 1",
        "           on cam0, cam1",
    ]
    back = rollout("rolled-back", reason="cam0: no")
    assert list(rollout_lines(back)) == ["rollout    rolled-back  faces@2 -> faces@3  wave 0  cam0: no"]
