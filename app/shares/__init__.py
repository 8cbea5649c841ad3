"""Links by which others see one job without an account."""
