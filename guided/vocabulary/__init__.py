"""Tokenizers become bytes here: any tokenizer that vLLM serves in, a `Vocabulary` with its byte `Trie` out."""

from guided.vocabulary.errors import VocabularyError
from guided.vocabulary.trie import TokenBytes, Trie
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["TokenBytes", "Trie", "Vocabulary", "VocabularyError"]
