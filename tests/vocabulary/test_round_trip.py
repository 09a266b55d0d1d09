"""The bytes of `encode(text)` give back `text`: 1,000 strings, every real tokenizer, modulo its documented normaliser."""

import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.vocabulary.conftest import Real
from tests.vocabulary.texts import varied_texts


def encoder(real: Real) -> Callable[[str], list[int]]:
    """The tokenizer's own library, without special tokens."""
    if real.path.is_dir():
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(str(real.path / "tokenizer.json"))
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    if real.name == "tekken":
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        tekken = Tekkenizer.from_file(real.path)
        return lambda text: tekken.encode(text, bos=False, eos=False)
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(real.path))
    return processor.encode


def normalised(name: str, text: str) -> str:
    """What the tokenizer itself does to a text before it splits it."""
    if name == "qwen3":
        return unicodedata.normalize("NFC", text)  # its normaliser is NFC
    if name == "gemma3":
        return text.replace("▁", " ")  # Replace(" ", "▁"), so a mark in the text is a space afterwards
    if name.startswith("spm") and text:
        return " " + text.replace("▁", " ")  # the same, after add_dummy_prefix
    return text


# SmolLM2 has no token for these bytes: its encoder drops the characters, so no text with them can come back (or be written).
UNSPEAKABLE = {"smollm2": b"\x04\x06\x13\x14\x16\x1d\xf1\xf2"}


def differences(real: Real, texts: list[str]) -> Iterator[tuple[str, bytes]]:
    encode = encoder(real)
    unspeakable = UNSPEAKABLE.get(real.name, b"")
    for text in texts:
        got = b"".join(map(real.vocabulary.bytes_of, encode(text)))
        if got.translate(None, unspeakable) != normalised(real.name, text).encode().translate(None, unspeakable):
            yield text, got


def test_thousand_texts_come_back(any_real: Real) -> None:
    texts = varied_texts(1000)
    assert len(texts) == 1000
    assert list(differences(any_real, texts)) == []


def test_this_very_file_comes_back(any_real: Real) -> None:
    assert list(differences(any_real, [Path(__file__).read_text(encoding="utf-8").replace("▁", "_")])) == []


def test_every_byte_of_utf8_has_a_token_of_its_own(any_real: Real) -> None:
    """A constraint may ask for any character; where a byte has no token, `UNSPEAKABLE` says so."""
    never_in_utf8 = {0xC0, 0xC1, *range(0xF5, 0x100)}
    pieces = set(any_real.vocabulary.token_bytes)
    missing = {byte for byte in range(256) if bytes([byte]) not in pieces} - never_in_utf8
    assert missing == set(UNSPEAKABLE.get(any_real.name, b""))
