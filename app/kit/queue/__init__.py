"""Messages and who waits for them: Dramatiq on Redis without polling."""
