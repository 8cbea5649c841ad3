"""Stores targets and deliveries in SQL. Knows no rules."""
