"""Does one stage of one job on this host: claim it, bring the inputs, run the toolchain in a child, keep the outputs.

It reports by a done message and never decides what comes next. Nothing is imported here: `child` runs in the sandbox,
which needs neither Redis nor a queue, and every worker waits for what its fork server loads.
"""
