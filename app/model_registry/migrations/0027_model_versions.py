"""Models have numbered versions, and tags that point to one of them. Existing models become version 1 of their name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
MOVED = ("card", "sha256", "twin_sha256", "job_id", "facts")
"""Columns that each version has of its own."""
INDEXED = ("sha256", "twin_sha256")
KEY = ("owner", "name")


def upgrade() -> None:
    op.create_table(
        "model_versions",
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        *_make_moved_columns(),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", "version"),
    )
    models, versions = _make_table("models", *MOVED), _make_table("model_versions", *MOVED)
    carried = [*KEY, "created_at", *MOVED]
    rest = {"version": sa.literal(1), "note": sa.literal(""), "metrics": sa.literal("{}")}
    rows = sa.select(*(models.c[name] for name in carried), *rest.values())
    op.execute(versions.insert().from_select([*carried, *rest], rows))
    for column in INDEXED:
        op.drop_index(f"ix_models_{column}", "models")
        op.create_index(f"ix_model_versions_{column}", "model_versions", [column])
    with op.batch_alter_table("models") as table:
        for name in ("newest", "last_number"):
            table.add_column(sa.Column(name, sa.Integer(), nullable=False, server_default="1"))
        for name in MOVED:
            table.drop_column(name)
    op.create_table(
        "model_tags",
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("tag", sa.String(32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("changed_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", "tag"),
    )


def downgrade() -> None:
    """Of each model its newest version stays."""
    op.drop_table("model_tags")
    with op.batch_alter_table("models") as table:
        for column in _make_moved_columns(server_default=""):
            table.add_column(column)
    models, versions = _make_table("models", "newest", *MOVED), _make_table("model_versions", *MOVED)
    is_newest = sa.and_(*(versions.c[name] == models.c[name] for name in KEY), versions.c.version == models.c.newest)
    newest = {name: sa.select(versions.c[name]).where(is_newest).scalar_subquery() for name in MOVED}
    op.execute(models.update().values(newest))
    with op.batch_alter_table("models") as table:
        for name in MOVED:
            table.alter_column(name, server_default=None)
        for name in ("newest", "last_number"):
            table.drop_column(name)
    for indexed in INDEXED:
        op.drop_index(f"ix_model_versions_{indexed}", "model_versions")
        op.create_index(f"ix_models_{indexed}", "models", [indexed])
    op.drop_table("model_versions")


def _make_table(name: str, *columns: str) -> sa.TableClause:
    own = ("version", "note", "metrics") if name == "model_versions" else ()
    return sa.table(name, *(sa.column(column) for column in (*KEY, "created_at", *own, *columns)))


def _make_moved_columns(server_default: str | None = None) -> list[sa.Column[str]]:
    kinds = {"card": sa.Text(), "sha256": sa.String(64), "twin_sha256": sa.String(64)}
    kinds |= {"job_id": sa.String(36), "facts": sa.Text()}
    return [sa.Column(name, kinds[name], nullable=False, server_default=server_default) for name in MOVED]
