"""Records, leases, changes and time series in Redis. What is here is forgotten when Redis restarts."""
