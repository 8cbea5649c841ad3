"""Messages and their consumers: Dramatiq on Redis without polling."""
