"""Alembic's entry point: runs the migrations on the given connection, in its transaction."""

from __future__ import annotations

from alembic import context

from gateway.ledger.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=False,
)
context.run_migrations()
