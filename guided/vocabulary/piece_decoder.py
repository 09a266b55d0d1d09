"""The `decoder` of a tokenizer.json in, a function from token spellings to bytes out; knows neither ids nor special tokens.

A tokenizer.json says itself how tokens become text. What the client reads is what this decoder gives, so it alone decides
the family, and added tokens pass through it as the others do (an added token "é" in a byte-level tokenizer is the byte E9,
since that is what vLLM writes out). Families:

* `ByteLevel`: GPT-2's byte <-> character map (SmolLM2, Llama-3, Qwen, DeepSeek, Falcon, StarCoder...).
* `Replace("▁", " ")`, `ByteFallback`, `Fuse`, `Strip`: SentencePiece converted to BPE (Llama-2, Mistral-7B, Phi-3, Gemma).
* `Metaspace`: older conversions of SentencePiece.

Whatever else there is (`WordPiece`, `BPEDecoder`, `CTC`, none at all) puts text *between* tokens, depending on the next one:
such tokens have no bytes of their own, and the tokenizer is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from guided.vocabulary.errors import VocabularyError

SPACE_MARK = "▁"  # U+2581, how SentencePiece writes a space


@dataclass(frozen=True, slots=True)
class PieceDecoder:
    """How one tokenizer spells bytes."""

    family: str  # "byte_level" or "sentencepiece"
    decode_all: Callable[[Sequence[str | None]], list[bytes]]  # None (no such id) becomes b""
    strips_leading_space: bool


def piece_decoder(decoder: Mapping[str, Any] | None) -> PieceDecoder:
    """Compile the `decoder` section of a tokenizer.json.

    Raises:
        VocabularyError: the decoder is of no family in which every token has bytes of its own.
    """
    steps = list(_flatten(decoder))
    kinds = [step["type"] for step in steps]
    if "ByteLevel" in kinds:
        if [kind for kind in kinds if kind != "Fuse"] != ["ByteLevel"]:
            raise _unknown(kinds)
        return PieceDecoder("byte_level", byte_level_bytes, strips_leading_space=False)
    replacements: list[tuple[str, str]] = []
    byte_fallback = fused = strips = False
    for step in steps:
        match step["type"]:
            case "Replace" if not byte_fallback and not fused:
                replacements.append(_replacement(step, kinds))
            case "Metaspace" if not byte_fallback and not fused:
                replacements.append((step.get("replacement", SPACE_MARK), " "))
                strips |= _metaspace_strips(step)
            case "ByteFallback" if not fused:
                byte_fallback = True
            case "Fuse":
                fused = True
            case "Strip" if fused:
                strips |= _strip_strips(step, kinds)
            case _:
                raise _unknown(kinds)
    if not replacements:
        raise _unknown(kinds)
    return PieceDecoder("sentencepiece", lambda texts: sentencepiece_bytes(texts, replacements, byte_fallback), strips)


def _flatten(decoder: Mapping[str, Any] | None) -> Iterable[Mapping[str, Any]]:
    """The steps of nested `Sequence` decoders in the order in which they run."""
    if not isinstance(decoder, Mapping) or "type" not in decoder:
        raise VocabularyError(
            "the tokenizer has no decoder: its tokens are joined with spaces and have no bytes of their own"
        )
    if decoder["type"] != "Sequence":
        yield decoder
        return
    for step in decoder.get("decoders", ()):
        yield from _flatten(step)


def _unknown(kinds: Sequence[str]) -> VocabularyError:
    return VocabularyError(
        f"unknown tokenizer family: its decoder is {' + '.join(kinds)}. Known are byte-level BPE (ByteLevel) and "
        f"SentencePiece (Replace or Metaspace, then ByteFallback, Fuse, Strip)"
    )


def _replacement(step: Mapping[str, Any], kinds: Sequence[str]) -> tuple[str, str]:
    """A `Replace` of a plain string; a pattern would have to be run on the whole text."""
    pattern, content = step.get("pattern"), step.get("content")
    # One character can't straddle two tokens, so it may be replaced token by token.
    if not isinstance(pattern, Mapping) or len(pattern.get("String", "")) != 1 or not isinstance(content, str):
        raise _unknown(kinds)
    return pattern["String"], content


def _metaspace_strips(step: Mapping[str, Any]) -> bool:
    """Whether the decode of a whole text loses the space marks that its first token begins with."""
    if step.get("add_prefix_space") is False:  # the older spelling
        return False
    return step.get("prepend_scheme", "always") != "never"


def _strip_strips(step: Mapping[str, Any], kinds: Sequence[str]) -> bool:
    """`Strip` may take one space off the start; anything else would change the middle or the end of an output."""
    start, stop = step.get("start", 0), step.get("stop", 0)
    if stop != 0 or start not in (0, 1) or (start == 1 and step.get("content") != " "):
        raise _unknown(kinds)
    return start == 1


def byte_level_alphabet() -> dict[str, int]:
    """GPT-2's character -> byte map: printable bytes stand for themselves, the others for U+0100 and up, in order.

    Source: `bytes_to_unicode` of https://github.com/openai/gpt-2, src/encoder.py.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + rank): byte for rank, byte in enumerate(others)}


def byte_level_bytes(texts: Sequence[str | None]) -> list[bytes]:
    """Bytes of byte-level spellings; one with a character outside the alphabet is literal text, as in `tokenizers`.

    All texts are mapped in one array operation, which is ten times faster than token by token.
    """
    alphabet = byte_level_alphabet()
    byte_of = np.full(0x110000, -1, dtype=np.int16)  # int16[code points]: byte, -1 = not in the alphabet
    byte_of[[ord(character) for character in alphabet]] = list(alphabet.values())
    joined = "".join(text or "" for text in texts)
    code_points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    mapped = byte_of[code_points]
    ends = np.cumsum(np.fromiter((len(text or "") for text in texts), dtype=np.int64, count=len(texts)))
    all_bytes = mapped.astype(np.uint8).tobytes()
    starts = np.concatenate(([0], ends[:-1])).tolist() if len(texts) else []
    pieces = [all_bytes[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
    for position in np.unique(np.searchsorted(ends, np.flatnonzero(mapped < 0), side="right")).tolist():
        pieces[position] = _utf8(texts[position])
    return pieces


def sentencepiece_bytes(
    texts: Sequence[str | None], replacements: Sequence[tuple[str, str]], byte_fallback: bool
) -> list[bytes]:
    """Bytes of SentencePiece spellings: `▁` is a space and, with byte fallback, `<0xXX>` the byte XX."""
    digits = "0123456789abcdefABCDEF"
    byte_pieces = {f"<0x{high}{low}>": bytes([int(high + low, 16)]) for high in digits for low in digits}
    pieces = []
    for text in texts:
        piece = byte_pieces.get(text) if byte_fallback and text else None
        if piece is None:
            text = text or ""
            for mark, content in replacements:
                text = text.replace(mark, content)
            piece = _utf8(text)
        pieces.append(piece)
    return pieces


def _utf8(text: str | None) -> bytes:
    try:
        return (text or "").encode()
    except UnicodeEncodeError as error:
        raise VocabularyError(f"a token holds a lone surrogate, which no text can: {text!r}") from error
