"""The JointInferenceService, what is told to its nodes, what they count, and its status. Imports no framework."""
