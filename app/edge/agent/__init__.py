"""The one agent of a machine: dials the web, keeps what it was told in SQLite, starts and watches workers.

Imports neither Redis, SQL nor an object store: an edge node has none of them. What is carried (joint inference, video)
comes in as Carriers; the agent itself knows no capability.
"""
