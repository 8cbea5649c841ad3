"""TensorBoard over the event files of a task: one confined process for each task that somebody looks at."""
