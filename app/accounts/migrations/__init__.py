"""The database's versions that concern accounts alone."""
