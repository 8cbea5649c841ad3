"""Checking a submission before it becomes a job. Runs in a sandbox child: the files may be hostile.

This package owns what is refused at the door. It must not touch the store or Redis.
"""

from app.conversion.intake.submission import check_submission

__all__ = ["check_submission"]
