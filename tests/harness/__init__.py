"""What the tests and the benchmarks stand on: real servers, the product as processes, records put straight into stores.

The one package that `tests` and `ops/benchmarks` share; it knows neither tests nor benchmarks.
"""
