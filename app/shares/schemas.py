"""The JSON that goes in and out of the API of links, and the forms of its page."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.kit.web.http import answer_of
from app.kit.web.strict import TEXT, Strict
from app.shares.model import Share

Days = Annotated[int, Field(ge=1, le=365)]
Label = Annotated[str, StringConstraints(strip_whitespace=True, max_length=100, pattern=TEXT)]
KEY = r"^[A-Za-z0-9_-]{1,100}$"


class NewShare(Strict):
    """Body of POST /jobs/{job_id}/shares."""

    days: Days = 7
    """Number of days for which the link is valid."""
    label: Label = ""
    """Whom the link is for."""


class KeyQuery(Strict):
    key: Annotated[str, StringConstraints(pattern=KEY)]


class ShareAnswer(BaseModel):
    share_id: str
    job_id: str
    label: str
    created_at: str
    expires_at: str
    revoked_at: str | None
    last_used_at: str | None


class NewShareAnswer(ShareAnswer):
    model_config = ConfigDict(use_attribute_docstrings=True)
    url: str
    """The link, which needs no account; shown once."""


class SharesAnswer(BaseModel):
    shares: list[ShareAnswer]


def share_answer(share: Share) -> ShareAnswer:
    return answer_of(ShareAnswer, share)


def new_share_answer(share: Share, url: str) -> NewShareAnswer:
    return answer_of(NewShareAnswer, share, url=url)
