"""Search for a quantization that reaches a goal: statistics are collected once, candidates are built as real QDQ files
and judged on held-out pictures, and the cheapest one that reaches the goal is chosen.

It must not know jobs, records or pages.
"""
