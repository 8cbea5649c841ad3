"""The one agent of a machine: connects to the web server, stores its orders in SQLite, starts and supervises workers.

Imports neither Redis, SQL nor an object store: an edge node has none of them. Capabilities (joint inference, video)
are added as WorkloadDrivers; the agent itself depends on none.
"""
