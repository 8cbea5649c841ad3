"""The table of models."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.sql import metadata

models = sa.Table(
    "models",
    metadata,
    sa.Column("owner", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("created_at", sa.String(32), nullable=False, index=True),
    sa.Column("card", sa.Text, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False, index=True),
    sa.Column("twin_sha256", sa.String(64), nullable=False, index=True),
    sa.Column("job_id", sa.String(36), nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
)
"""card: app.inference.prediction.ModelCard as JSON. job_id: of the conversion it is from; empty when its
user brought it. facts: what is shown of it: inputs, outputs."""
