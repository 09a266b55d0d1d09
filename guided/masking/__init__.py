"""In: one automaton state per request of the batch; out: logits in which every forbidden token is -inf. Knows no engine."""

from guided.masking.batch_masker import BatchMasker
from guided.masking.slot import Index

__all__ = ["BatchMasker", "Index"]
