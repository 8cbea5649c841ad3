"""Checking a submission before it becomes a job. Runs in a sandbox child: the files may be hostile.

This package owns what is refused on arrival. It must not touch the store or Redis.
"""
