"""One file per version of the schema; see the package above."""
