"""The HTTP gateway: vLLM's own OpenAI routes, with every constraint compiled and enforced by `guided`. Knows no automata."""
