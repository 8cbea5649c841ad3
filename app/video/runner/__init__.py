"""The process that runs one job: `python -m app.video.runner.main`, started by the agent of the node with the video."""
