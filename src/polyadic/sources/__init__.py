"""Sources: where training rows come from, and how a fit reaches them."""
