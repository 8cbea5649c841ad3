"""Answers of models, frame by frame, of video jobs and services alike: stored, searched, exported, and forwarded to
sinks."""
