"""The paper's experiments: its settings, its figures, and the runs that repeat them."""

from polyadic.experiments.paper import paper_baseline, paper_regressor

__all__ = ["paper_baseline", "paper_regressor"]
