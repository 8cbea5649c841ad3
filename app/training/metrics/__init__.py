"""What training tells Prometheus: `counting` holds what is counted and timed where it happens, `collector` says what is
found out at the moment of a scrape."""
