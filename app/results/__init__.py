"""What models have answered, frame by frame, of video jobs and services alike: kept, looked through, exported, and
handed on to sinks."""
