"""The programs on nodes: the agent, and the workers it starts. No Redis, no SQL and no object store."""
