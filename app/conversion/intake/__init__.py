"""Checking a submission before it becomes a job. Runs in a sandbox child: the files may be hostile.

This package owns what is refused at the door. It must not touch the store or Redis.
"""
