"""The process that serves stages on a node: `python -m app.video.services.host`, started by the node's agent."""
