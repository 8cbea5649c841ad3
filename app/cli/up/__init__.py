"""`modelmill up`: its command, and those of its parts that assemble the product in a forked process."""
