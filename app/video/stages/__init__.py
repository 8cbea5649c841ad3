"""The programs that stages are: what a node runs on a picture. Kinds are found by name in app.video.stages.registry."""
