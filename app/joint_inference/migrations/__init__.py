"""The database's versions that concern joint inference alone."""
