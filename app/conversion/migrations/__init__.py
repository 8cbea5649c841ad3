"""The database's versions that concern conversion alone."""
