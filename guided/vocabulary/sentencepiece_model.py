"""A SentencePiece model (`tokenizer.model`, loaded) in, a `TokenTable` out; knows nothing of tokenizer.json.

The model says of each piece what it is (normal, user-defined, byte, control, unknown), so nothing is read off the spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guided.vocabulary.errors import VocabularyError
from guided.vocabulary.piece_decoder import SPACE_MARK
from guided.vocabulary.token_table import AddedTokens, TokenTable, table_from_texts, with_config


def load_sentencepiece(content: bytes) -> Any:
    """The processor of a serialised model. Raises VocabularyError where it is none, or where the library is missing."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise VocabularyError("reading a SentencePiece model needs the package sentencepiece") from error
    try:
        return SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise VocabularyError(f"not a SentencePiece model: {error}") from error


def read_sentencepiece(processor: Any, config: Mapping[str, Any]) -> TokenTable:
    """Bytes and meaning of every piece.

    Args:
        processor: a `sentencepiece.SentencePieceProcessor`.
        config: the parsed tokenizer_config.json (tokens added beside the model, names of special tokens), or empty.
    """
    size = processor.get_piece_size()
    pieces: list[bytes] = []
    special: dict[int, str] = {}
    known: dict[str, int] = {}
    for token_id in range(size):
        text = processor.id_to_piece(token_id)
        known[text] = token_id
        if processor.IsControl(token_id) or processor.IsUnknown(token_id):
            special[token_id] = text
        if processor.IsByte(token_id):
            pieces.append(bytes([int(text[3:5], 16)]))  # <0xXX>
        else:
            pieces.append(text.replace(SPACE_MARK, " ").encode())
    added = with_config(AddedTokens({}, special), config, known, next_id=size)
    added_bytes = {token_id: content.encode() for token_id, content in added.text.items()}
    eos_ids = [processor.eos_id()] if processor.eos_id() >= 0 else []
    eos_ids += added.ids_of(config.get("eos_token"))
    return table_from_texts(pieces, added, added_bytes, eos_ids, strips=strips_dummy_prefix(processor))


def strips_dummy_prefix(processor: Any) -> bool:
    """Whether the model puts a space before a text (`add_dummy_prefix`) and takes one off again when it decodes."""
    for token_id in range(processor.get_piece_size()):
        piece = processor.id_to_piece(token_id)
        if piece.startswith(SPACE_MARK) and piece.strip(SPACE_MARK):
            return not processor.decode_pieces([piece]).startswith(" ")
    return False
