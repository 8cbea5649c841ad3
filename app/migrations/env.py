"""The Alembic environment: applies migrations on the given connection, in that connection's transaction."""

from __future__ import annotations

from alembic import context

from app.kit.sql import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=metadata, render_as_batch=True, transaction_per_migration=False
)
context.run_migrations()
