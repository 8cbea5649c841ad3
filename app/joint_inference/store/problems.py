"""Since when services have their problems, and of which their users were told. Runs in the caller's transactions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from app.joint_inference.store.tables import services


@dataclass(frozen=True)
class LastingProblem:
    since: str
    is_told: bool = False


def problems_of(conn: Connection, uid: str) -> dict[str, LastingProblem]:
    """Returns the problems of a service, by ProblemKind."""
    text = conn.execute(sa.select(services.c.problems).where(services.c.uid == uid)).scalar_one()
    return {name: LastingProblem(**fields) for name, fields in json.loads(text).items()}


def put_problems(conn: Connection, uid: str, problems: Mapping[str, LastingProblem]) -> None:
    """No change that watchers see."""
    text = json.dumps({name: vars(one) for name, one in problems.items()})
    conn.execute(sa.update(services).where(services.c.uid == uid).values(problems=text))
