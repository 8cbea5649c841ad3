"""Data homes: what each user keeps on the shared storage, which paths a task may name, how long things stay."""
