"""Which decoders are known, what they make of a token, and that all others are refused by name."""

from typing import Any

import pytest

from guided.vocabulary import VocabularyError
from guided.vocabulary.piece_decoder import byte_level_alphabet, piece_decoder

REPLACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": list(steps)}


def test_byte_level_alphabet_is_that_of_transformers() -> None:
    convert = pytest.importorskip("transformers.convert_slow_tokenizer")
    assert byte_level_alphabet() == {character: byte for byte, character in convert.bytes_to_unicode().items()}


@pytest.mark.parametrize("decoder", [BYTE_LEVEL, sequence(BYTE_LEVEL), sequence(BYTE_LEVEL, FUSE)])
def test_byte_level(decoder: dict[str, Any]) -> None:
    known = piece_decoder(decoder)
    texts = ["Ġhello", "Ċ", "é", "a b", None, "Ã©", "<｜end▁x｜>", "", "ĠĠ"]
    expected = [b" hello", b"\n", b"\xe9", b"a b", b"", "é".encode(), "<｜end▁x｜>".encode(), b"", b"  "]
    assert known.decode_all(texts) == expected
    assert known.decode_all([]) == []
    assert (known.family, known.strips_leading_space) == ("byte_level", False)


def test_byte_level_agrees_with_the_library() -> None:
    decoders = pytest.importorskip("tokenizers.decoders")
    library = decoders.ByteLevel()
    texts = ["Ġa", "a b", "né▁", "é", "Ã©", "€", "\n", "Ġ€", "🙂"]
    ours = piece_decoder(BYTE_LEVEL).decode_all(texts)
    assert [piece.decode(errors="replace") for piece in ours] == [library.decode([text]) for text in texts]


@pytest.mark.parametrize(
    ("decoder", "strips"),
    [
        (sequence(REPLACE, FALLBACK, FUSE, STRIP), True),
        (sequence(REPLACE, FALLBACK, FUSE), False),
        (sequence(sequence(REPLACE), FALLBACK, FUSE, STRIP | {"start": 0}), False),
        (sequence({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}, FALLBACK, FUSE), True),
        (sequence({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}, FALLBACK, FUSE), False),
        (sequence({"type": "Metaspace", "replacement": "▁", "add_prefix_space": False}, FALLBACK, FUSE), False),
    ],
)
def test_sentencepiece(decoder: dict[str, Any], strips: bool) -> None:
    known = piece_decoder(decoder)
    texts = ["▁Pizza", "<0x0A>", "<0xfF>", "<0x0A>x", "▁▁", "é", None, "<0x>"]
    assert known.decode_all(texts) == [b" Pizza", b"\n", b"\xff", b"<0x0A>x", b"  ", "é".encode(), b"", b"<0x>"]
    assert (known.family, known.strips_leading_space) == ("sentencepiece", strips)


def test_without_byte_fallback_a_byte_piece_is_literal() -> None:
    assert piece_decoder(sequence(REPLACE, FUSE)).decode_all(["<0x0A>"]) == [b"<0x0A>"]


@pytest.mark.parametrize(
    ("decoder", "named"),
    [
        (None, "no decoder"),
        ({"type": "WordPiece", "prefix": "##", "cleanup": True}, "WordPiece"),
        ({"type": "BPEDecoder", "suffix": "</w>"}, "BPEDecoder"),
        ({"type": "CTC"}, "CTC"),
        ({"type": "Fuse"}, "Fuse"),
        (sequence(BYTE_LEVEL, STRIP), r"ByteLevel \+ Strip"),
        (sequence(FALLBACK, REPLACE), r"ByteFallback \+ Replace"),  # would replace marks that byte tokens spell
        (sequence(FUSE, REPLACE), r"Fuse \+ Replace"),
        (sequence(REPLACE, STRIP, FUSE), "Strip"),  # would strip every token
        (sequence(REPLACE, FUSE, STRIP | {"stop": 1}), "Strip"),  # would cut the end of the output
        (sequence(REPLACE, FUSE, STRIP | {"start": 2}), "Strip"),
        (sequence(REPLACE, FUSE, STRIP | {"content": "_"}), "Strip"),
        (sequence({"type": "Replace", "pattern": {"Regex": "▁+"}, "content": " "}), "Replace"),
        (sequence({"type": "Replace", "pattern": {"String": "ab"}, "content": " "}), "Replace"),
        (sequence(), "unknown tokenizer family"),
    ],
)
def test_others_are_refused_by_name(decoder: dict[str, Any] | None, named: str) -> None:
    with pytest.raises(VocabularyError, match=named):
        piece_decoder(decoder)


def test_lone_surrogate_is_refused() -> None:
    with pytest.raises(VocabularyError, match="surrogate"):
        piece_decoder(BYTE_LEVEL).decode_all(["\ud800"])
