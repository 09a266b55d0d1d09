"""For every id of every real tokenizer, our bytes are what the tokenizer's own library writes."""

import json
from pathlib import Path

import pytest

from guided.vocabulary import Vocabulary
from tests.vocabulary.conftest import FOLDERS, Real, folder_of, load, mistral_file, real


def test_every_token_decodes_to_its_bytes(json_real: Real) -> None:
    """Decoded behind an anchor, so that a space at the start isn't stripped; special tokens are skipped as in vLLM."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(json_real.path / "tokenizer.json"))
    vocabulary = json_real.vocabulary
    anchor = tokenizer.encode("x", add_special_tokens=False).ids
    texts = tokenizer.decode_batch([[*anchor, token_id] for token_id in range(len(vocabulary))])
    pieces = [b"x" + piece for piece in vocabulary.token_bytes]
    by_role = SPECIAL_BY_ROLE.get(json_real.name, {}).values()
    # A lone byte piece of the SentencePiece kind that isn't UTF-8 is one U+FFFD there, as it is here.
    wrong = [
        (i, piece, text)
        for i, (piece, text) in enumerate(zip(pieces, texts, strict=True))
        if shown(piece) != text and i not in by_role
    ]
    assert wrong == []


# Text to the tokenizers library, special to transformers and so to vLLM.
SPECIAL_BY_ROLE = {"gemma3": {"<mask>": 4}}


def shown(piece: bytes) -> str:
    return piece.decode("utf-8", errors="replace")


def test_special_tokens_are_never_text(json_real: Real) -> None:
    document = json.loads((json_real.path / "tokenizer.json").read_text(encoding="utf-8"))
    special = {token["content"]: token["id"] for token in document["added_tokens"] if token["special"]}
    assert json_real.vocabulary.special_token_ids == special | SPECIAL_BY_ROLE.get(json_real.name, {})
    assert not any(json_real.vocabulary.is_text(token_id) for token_id in special.values())


def test_added_tokens_that_are_text_are_text() -> None:
    vocabulary = real("qwen3").vocabulary
    document = json.loads((folder_of("qwen3") / "tokenizer.json").read_text(encoding="utf-8"))
    added = {token["id"]: token["content"] for token in document["added_tokens"] if not token["special"]}
    assert "<tool_call>" in added.values()
    assert {token_id: vocabulary.bytes_of(token_id).decode() for token_id in added} == added


@pytest.mark.parametrize("name", FOLDERS)
def test_transformers_object_gives_the_same_vocabulary(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = folder_of(name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    vocabulary = Vocabulary.from_pretrained(tokenizer, cache_dir=tmp_path)
    assert vocabulary.digest == load(folder).digest


def test_bare_tokenizer_has_the_same_bytes_but_no_stop_id(tmp_path: Path) -> None:
    import tokenizers

    folder = folder_of("llama3")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    bare = Vocabulary.from_pretrained(tokenizer, cache_dir=tmp_path)
    assert bare.token_bytes.data.tobytes() == load(folder).token_bytes.data.tobytes()
    assert bare.eos_ids == ()
    assert load(folder).eos_ids == (128_001,)


def test_tekken_file_and_its_library_agree() -> None:
    tekken = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
    path = mistral_file("tekken")
    engine = tekken.Tekkenizer.from_file(path)
    vocabulary = load(path)
    assert len(vocabulary) == engine.n_words
    assert vocabulary.eos_ids == (engine.eos_id,)
    assert vocabulary.special_token_ids == engine._special_tokens_reverse_vocab
    for token_id in range(engine.num_special_tokens, engine.n_words):
        assert vocabulary.bytes_of(token_id) == engine.id_to_byte_piece(token_id)
    assert Vocabulary.from_pretrained(engine).digest == vocabulary.digest


@pytest.mark.parametrize("name", ["spm_v1", "spm_v3"])
def test_sentencepiece_file_and_its_library_agree(name: str) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    path = mistral_file(name)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    vocabulary = load(path)
    assert len(vocabulary) == processor.get_piece_size()
    anchor = processor.encode("x")
    for token_id in range(len(vocabulary)):
        if processor.IsUnknown(token_id):  # decodes to " ⁇ ", which no text is made of
            assert not vocabulary.is_text(token_id)
        else:
            assert processor.decode([*anchor, token_id]) == shown(b"x" + vocabulary.bytes_of(token_id))
    assert Vocabulary.from_pretrained(processor).digest == vocabulary.digest


@pytest.mark.parametrize("name", ["tekken", "spm_v3"])
def test_wrapped_mistral_tokenizers(name: str) -> None:
    """mistral_common's tokenizer and the transformers backend around it (inside of vLLM's own wrapper, too)."""
    mistral = pytest.importorskip("mistral_common.tokens.tokenizers.mistral")
    transformers_mistral = pytest.importorskip("transformers.tokenization_mistral_common")
    path = mistral_file(name)
    digest = load(path).digest
    assert Vocabulary.from_pretrained(mistral.MistralTokenizer.from_file(str(path))).digest == digest
    backend = transformers_mistral.MistralCommonBackend(tokenizer_path=str(path))
    assert Vocabulary.from_pretrained(backend).digest == digest


def test_vllm_mistral_tokenizer(tmp_path: Path) -> None:
    vllm_mistral = pytest.importorskip("vllm.tokenizers.mistral")
    path = mistral_file("tekken")
    (tmp_path / "tekken.json").write_bytes(path.read_bytes())
    tokenizer = vllm_mistral.MistralTokenizer.from_pretrained(str(tmp_path))
    vocabulary = Vocabulary.from_pretrained(tokenizer)
    assert vocabulary.digest == load(path).digest
    assert vocabulary.eos_ids == (tokenizer.eos_token_id,)


def test_tiktoken_encoding(tmp_path: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"he": 256, b"hel": 257, "né".encode(): 258}
    encoding = tiktoken.Encoding("toy", pat_str=r"\w+|.", mergeable_ranks=ranks, special_tokens={"<|end|>": 260})
    vocabulary = Vocabulary.from_pretrained(encoding)
    assert len(vocabulary) == 261
    assert [vocabulary.bytes_of(i) for i in (0, 255, 257, 258, 259, 260)] == [
        b"\0",
        b"\xff",
        b"hel",
        "né".encode(),
        b"",
        b"",
    ]
    assert vocabulary.special_token_ids == {"<|end|>": 260}
