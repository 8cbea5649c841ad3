"""The JointInferenceService, the orders of its nodes, their counters, and its status. Imports no framework."""
