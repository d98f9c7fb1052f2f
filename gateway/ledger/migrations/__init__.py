"""The history of the schema, in alembic's form: one file per version, `versions/r<number>_<what>.py`.

A change of `gateway.ledger.schema` comes with a new file here and a new `SCHEMA_VERSION`, its number. A file that was
released is never changed: `tests/contract/test_shape.py` holds its digest, which the release adds; until then it may be. Each brings SQLite and PostgreSQL alike; on PostgreSQL it also grants the application's role
what it needs. Tests compare where the migrations lead with the tables of the schema.
"""
