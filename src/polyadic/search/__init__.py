"""The search: how an automatic fit chooses for itself."""
