"""Prometheus metrics of training: `counters` has the counters and timings, `collector` reads the rest during a
scrape."""
