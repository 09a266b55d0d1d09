"""What a client of vLLM reads for the first output token, beside what `Vocabulary` says of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from guided.vocabulary import Vocabulary
from tests.vocabulary.conftest import load, mistral_file, real

BOS = 1


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Vocabulary]:
    """A Llama-2 kind of tokenizer: Mistral's first SentencePiece model, as transformers loads it."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("llama")
    (folder / "tokenizer.model").write_bytes(mistral_file("spm_v1").read_bytes())
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    return tokenizer._tokenizer, Vocabulary.from_pretrained(tokenizer, cache_dir=folder / "cache")


def streamed(engine: Any, prompt: list[int], output: list[int]) -> str:
    """vLLM's FastIncrementalDetokenizer: the stream is primed with the prompt, then takes one token at a time."""
    from tokenizers.decoders import DecodeStream

    stream = DecodeStream(ids=prompt, skip_special_tokens=True)
    return "".join(stream.step(engine, token_id) or "" for token_id in output)


OUTPUTS = [["▁P", "izza"], ["▁", "▁P"], ["<0x20>", "a"], ["▁▁", "a"], ["P", "▁P"], ["<0xE2>", "<0x82>", "<0xAC>", "a"]]


@pytest.mark.parametrize("output", OUTPUTS, ids="".join)
@pytest.mark.parametrize("prompt", ["", "<s>", "hello", "<s> hello", " "])
def test_text_is_the_bytes_but_for_the_first_space(llama: Any, prompt: str, output: list[str]) -> None:
    engine, vocabulary = llama
    prompt_ids = [BOS] * prompt.startswith("<s>") + engine.encode(
        prompt.removeprefix("<s>"), add_special_tokens=False
    ).ids
    if prompt in ("", "<s>"):
        assert not any(vocabulary.is_text(token_id) for token_id in prompt_ids)
    ids = [engine.token_to_id(piece) for piece in output]
    written = b"".join(map(vocabulary.bytes_of, ids)).decode()
    if vocabulary.drops_first_space(prompt_ids):
        written = written.removeprefix(" ")
    assert streamed(engine, prompt_ids, ids) == written


def test_only_prompts_without_text_drop_it(llama: Any) -> None:
    engine, vocabulary = llama
    assert vocabulary.strips_leading_space
    assert vocabulary.drops_first_space([]) and vocabulary.drops_first_space([BOS, BOS])
    assert not vocabulary.drops_first_space([BOS, engine.token_to_id("▁P")])


@pytest.mark.parametrize("name", ["llama3", "qwen3", "smollm2", "gemma3", "tekken"])
def test_these_never_drop_it(name: str) -> None:
    vocabulary = real(name).vocabulary
    assert not vocabulary.strips_leading_space
    assert not vocabulary.drops_first_space([])


@pytest.mark.parametrize("name", ["gemma3", "llama3"])
def test_whole_decode_keeps_the_space(name: str) -> None:
    import tokenizers

    found = real(name)
    engine = tokenizers.Tokenizer.from_file(str(found.path / "tokenizer.json"))
    ids = [next(i for i in found.vocabulary.trie.token_ids.tolist() if found.vocabulary.bytes_of(i) == b" pizza")]
    assert streamed(engine, [], ids) == engine.decode(ids) == " pizza"


def test_mistral_sentencepiece_in_vllm(tmp_path: Path) -> None:
    """vLLM's slow detokenizer, over its own wrapper of Mistral's SentencePiece tokenizers."""
    vllm_mistral = pytest.importorskip("vllm.tokenizers.mistral")
    from vllm.tokenizers.detokenizer_utils import convert_prompt_ids_to_tokens, detokenize_incrementally

    path = mistral_file("spm_v3")
    (tmp_path / "tokenizer.model.v3").write_bytes(path.read_bytes())
    tokenizer = vllm_mistral.MistralTokenizer.from_pretrained(str(tmp_path))
    vocabulary = load(path)
    processor = tokenizer.tokenizer._model
    for prompt in ([], [BOS], [BOS, *processor.encode("hello there")], [BOS, 3, *processor.encode("hi"), 4]):
        for output in OUTPUTS[:2]:
            ids = [processor.piece_to_id(piece) for piece in output if processor.piece_to_id(piece)]
            tokens, prefix, read = convert_prompt_ids_to_tokens(tokenizer, prompt, skip_special_tokens=True)
            seen, text = list(prompt), ""
            for token_id in ids:
                seen.append(token_id)
                new, delta, prefix, read = detokenize_incrementally(tokenizer, seen, tokens, prefix, read, True)
                tokens, text = tokens + new, text + delta
            written = b"".join(map(vocabulary.bytes_of, ids)).decode()
            assert text == (written.removeprefix(" ") if vocabulary.drops_first_space(prompt) else written)
