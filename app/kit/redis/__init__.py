"""Records, leases, changes and time series in Redis. All of it is forgotten when Redis restarts."""
