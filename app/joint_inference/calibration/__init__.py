"""Calibration of a service: both models say what they see on a user's samples, once; which thresholds would have sent
what to the cloud, and how good that had been, is then computed from these answers alone."""
