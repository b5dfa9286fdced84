"""Storage: files that appear whole, models, checkpoints."""
