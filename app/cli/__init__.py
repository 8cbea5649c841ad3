"""The `modelmill` command, and the commands that belong to no capability."""
