"""The process that serves stages on a node: `python -m app.edge.video.stage_host.host`, started by the node's agent."""
