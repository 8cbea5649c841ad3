"""What training tells Prometheus: `counters` holds what is counted and timed where it happens, `collector` reads the
rest at the moment of a scrape."""
