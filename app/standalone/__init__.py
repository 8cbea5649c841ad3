"""The whole product on one machine: Valkey, web, scheduler, workers and the periodic pulse, started and stopped as one.

This package manages processes and their folders. It knows the command line of each part, but not what the parts do:
those that assemble the product are in `app.cli.up`.
"""
