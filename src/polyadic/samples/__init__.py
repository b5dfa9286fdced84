"""Samples: WHERE rows live.

The driver asks for sums over all rows; a samples object knows the chunks, has an engine
compute each one, and adds the answers in a fixed order, so that the result depends on
neither timing nor the number of workers.
"""
