"""Routes that vLLM does not have, one noun a file."""
