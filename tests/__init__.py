"""A package, so that another one called `tests` in the environment does not take its place."""
