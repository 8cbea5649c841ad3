"""Rules are of services, too: they are no longer video's; what is known of them is kept for each origin of rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.create_table(
        "result_rule_states",
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("source", sa.String(63), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("uid", "node", "source"),
    )
    op.execute("INSERT INTO result_rule_states (uid, node, source, state) SELECT uid, '', '', state FROM video_rules")
    op.drop_column("video_rules", "state")
    op.rename_table("video_rules", "result_rules")
    for name in ("node", "source"):
        op.add_column("result_events", sa.Column(name, sa.String(63), nullable=False, server_default=""))


def downgrade() -> None:
    for name in ("source", "node"):
        op.drop_column("result_events", name)
    op.rename_table("result_rules", "video_rules")
    op.add_column("video_rules", sa.Column("state", sa.Text(), nullable=False, server_default=""))
    op.execute(
        "UPDATE video_rules SET state = COALESCE((SELECT state FROM result_rule_states AS kept WHERE kept.uid = "
        "video_rules.uid AND kept.node = '' AND kept.source = ''), "
        """'{"at": null, "tracks": [], "rules": {}, "problem": "", "next_track": 1}')"""
    )
    op.drop_table("result_rule_states")
