"""What every endpoint of joint inference needs of a request."""

from __future__ import annotations

from starlette.requests import Request

from app.joint_inference.service import Joint


def joint_of(request: Request) -> Joint:
    found = request.app.state.joint
    assert isinstance(found, Joint)
    return found
