"""Calibration of a service: both models answer a user's samples once; the uploads and the quality for each threshold
are then computed from these answers alone."""
