"""Users, their tokens and sessions, and the audit: who may do what, and who did."""
