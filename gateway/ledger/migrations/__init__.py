"""The history of the schema, in alembic's form: one file per version, `versions/r<number>_<what>.py`.

A change of `gateway.ledger.schema` comes with a new file here and its number as the new `SCHEMA_VERSION`. A
released file is never changed: `tests/contract/test_shape.py` holds its digest, which the release adds. Each
file migrates both SQLite and PostgreSQL; on PostgreSQL it also grants the application's role what it needs.
Tests compare the migrated tables with the schema's.
"""
