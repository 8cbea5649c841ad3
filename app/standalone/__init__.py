"""The whole product on one machine: Valkey, web, scheduler, workers and the periodic pulse, started and stopped as one.

This package owns processes and their folders. It knows how each part is typed on a command line and nothing of
what the parts do.
"""
