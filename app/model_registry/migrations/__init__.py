"""The database's versions that concern the model registry alone."""
