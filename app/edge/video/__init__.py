"""Video jobs on a node: their runners, the host of their stages, and the drivers by which the agent keeps both."""
