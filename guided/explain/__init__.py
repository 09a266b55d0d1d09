"""What people want to know of an automaton: its character edges, samples of its language, where a text leaves it. Draws nothing."""
