"""Video DAG jobs: stages on the frames of a stream, each run where a scheduler puts it, at the edge or in the cloud."""
