"""The database's versions that concern nodes alone."""
