"""Our masker in the engine's clothes: one module per interface of vLLM, and the form in which a constraint travels to it."""
