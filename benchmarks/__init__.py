"""What a streamed chunk and a turn cost, beside the least that they can cost: `python -m benchmarks --help`.

Nothing here is installed with the package, and no test asserts a time.
"""
