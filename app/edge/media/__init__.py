"""What jobs and services make of pictures on a node: encoded video, and broadcasts to its media server."""
