"""The database's versions that concern video alone."""
