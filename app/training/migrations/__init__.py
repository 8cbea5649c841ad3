"""The database's versions that concern training alone."""
