"""Checking a submission before it becomes a job. Runs in a sandbox child: the files may be hostile.

This package decides what is refused on arrival. It does not access the store or Redis.
"""
