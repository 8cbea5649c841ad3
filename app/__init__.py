"""Modelmill: from a trained network to an edge NPU."""
