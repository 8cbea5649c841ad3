"""Tests of app/exchange."""
