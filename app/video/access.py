"""Request dependencies shared by all endpoints of video."""

from __future__ import annotations

from starlette.requests import Request

from app.kit.errors import Forbidden
from app.kit.web.auth import caller_of, only_for_administrators, user_of
from app.kit.web.state import FromContainer
from app.video.model.report import Measurement
from app.video.service import Video

video_of = FromContainer[Video]("video")


def measurements_of(request: Request, *, node: str = "", stage: str = "") -> list[Measurement]:
    """On nodes that the user may use, of stages that they may use."""
    video, user = video_of(request), user_of(request)
    nodes = {one.name for one in video.resources.nodes.access.seen_by(user)}
    stages = video.catalogue.names_seen_by(user)
    measurements = video.reports.measurements(node=node, stage=stage)
    return [one for one in measurements if one.node in nodes and one.stage in stages]


def uid_of(request: Request) -> str:
    """Of the job in the path."""
    return str(request.path_params["job_uid"])


require_admin = only_for_administrators("Stages are added and removed by administrators.")


def require_user(request: Request) -> str:
    """Returns the name of the calling user.

    Raises:
        Forbidden: A node calls.
    """
    caller = caller_of(request)
    if caller.node:
        raise Forbidden("This is for users.", hint="A node asks for plans and reports; it has no jobs of its own.")
    return caller.user


def require_node(request: Request) -> str:
    """Returns the name of the calling node.

    Raises:
        Forbidden: A user calls.
    """
    caller = caller_of(request)
    if not caller.node:
        raise Forbidden("This is for nodes.", hint="The agent of a node sends it, with the node's token.")
    return caller.node
