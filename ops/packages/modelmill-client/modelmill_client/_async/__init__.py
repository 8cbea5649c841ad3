"""The client to be awaited. The other one is made from it: see generate.py."""
