"""Runs one stage of one job on this host: claims it, copies the inputs, runs the toolchain in a child, stores the
outputs.

It reports with a done message and never decides the next step. Nothing is imported here: `child` runs in the sandbox,
which needs neither Redis nor a queue, and every worker waits for the imports of its fork server.
"""
