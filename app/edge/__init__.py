"""What runs on nodes: the agent, and the workers it starts. Knows no Redis, no SQL and no object store."""
