"""The process that runs one job: `python -m app.edge.video.runner.main`, started by the agent of its node."""
