"""Measurements. Each prints a table and compares with a limit that is measured in the same run."""
