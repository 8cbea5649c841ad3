"""A capability more is one line more: the toy of the harness is served, asked, counted and shown like the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from app.kit.sql import Database, migrations
from app.settings import Settings
from tests.harness.paths import REPOSITORY
from tests.harness.toy import MIGRATIONS

TOY_VERSION = """
import sqlalchemy as sa
from alembic import op

revision = "9000"
down_revision = "{newest}"


def upgrade() -> None:
    op.create_table("toys", sa.Column("name", sa.String(32), primary_key=True))
"""


def test_one_line_more_is_one_capability_more(settings: Settings, database: Database, tmp_path: Path) -> None:
    versions = tmp_path / "versions"
    versions.mkdir()
    (versions / "9000_toys.py").write_text(TOY_VERSION.format(newest=migrations.current(database)))
    surroundings = os.environ | {
        "MODELMILL_DATA_DIR": str(settings.data_dir),
        "MODELMILL_REDIS_URL": settings.redis_url,
        "MODELMILL_SECRET_KEY": settings.secret_key.get_secret_value(),
        MIGRATIONS: str(versions),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tests.harness.toy.main"],
        cwd=REPOSITORY,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "before": {"toys": 0},
        "done": True,
        "after": {"toys": 1},
        "described": True,
        "page": "All toys",
        "menu": True,
        "jump": True,
        "metrics": True,
        "command": "toys are counted\n",
    }
