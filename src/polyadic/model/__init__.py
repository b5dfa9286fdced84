"""The model: the weight tensor, its sums, its solves and the driver of the fit."""
