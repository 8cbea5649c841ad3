"""Data homes: each user's folders on the shared storage, the paths that a task may name, and retention."""
