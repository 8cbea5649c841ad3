"""Tests of app/exchange/pack."""
