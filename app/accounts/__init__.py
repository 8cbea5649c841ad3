"""Users, their tokens and sessions, and the audit log."""
