"""Speed and memory, beside peers, in one run: `python -m benchmarks --help`."""
