"""The database's versions that concern notifications alone."""
