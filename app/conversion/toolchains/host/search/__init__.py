"""Search for a quantization that reaches a goal: statistics are collected once, candidates are built as real QDQ files
and judged on pictures they were not calibrated on, and the cheapest that holds is taken.

It must not know jobs, records or pages.
"""
