"""The one agent of a machine: connects to the web, stores its orders in SQLite, starts and supervises workers.

Imports neither Redis, SQL nor an object store: an edge node has none of them. Capabilities (joint inference, video)
come in as WorkloadDrivers; the agent itself knows none.
"""
