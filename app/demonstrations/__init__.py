"""Demonstrations that join the running product by a button: joint inference and video, with nodes on its machine."""
