"""The database's versions that concern homes alone."""
