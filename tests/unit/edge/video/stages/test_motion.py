"""Motion: which pictures of a clip differ from the one before, without a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.edge.video.stages.motion import Motion
from app.kit.errors import BadRequest
from app.video.errors import BadStage

GREY = np.full((90, 120, 3), 127, np.uint8)
MOVED = GREY.copy()
MOVED[20:70, 30:90] = 255


def test_a_clip_of_one_picture_again_and_again_does_not_move() -> None:
    stage = Motion([], {})
    assert stage.run({"clip": [GREY] * 4}) == {"prob": [0.0] * 3, "count_result": {"moving": 0, "total": 3}}
    assert stage.run({"clip": [GREY, MOVED]})["count_result"] == {"moving": 1, "total": 1}
    assert stage.run({"clip": [GREY, MOVED, MOVED]})["count_result"] == {"moving": 1, "total": 2}
    assert stage.run({"clip": [GREY]})["count_result"] == {"moving": 0, "total": 0}


@pytest.mark.parametrize("clip", [None, [], "x", [1], GREY])
def test_motion_wants_a_clip(clip: Any) -> None:
    with pytest.raises(BadRequest, match="clip is missing"):
        Motion([], {}).run({"clip": clip})


def test_the_area_that_counts_is_a_share_of_the_picture() -> None:
    with pytest.raises(BadStage, match="area is a number"):
        Motion([], {"area": "2"})
