"""Errors of a stage, as they come from the process that computes it."""

from __future__ import annotations

import pytest

from app.edge.video.stage_host.worker import error_of
from app.inference.errors import DamagedPicture, WrongSampleShape
from app.kit.errors import ModelmillError
from app.kit.sandbox.errors import StageFailed


@pytest.mark.parametrize("raised", [DamagedPicture("cut"), WrongSampleShape("2 x 2"), StageFailed("no")], ids=repr)
def test_an_error_of_a_stage_keeps_its_code_and_status(raised: ModelmillError) -> None:
    error = error_of({**raised.to_dict(), "status": raised.status})
    assert (type(error), error.status, error.message) == (type(raised), raised.status, raised.message)
