"""Small tokenizer folders: added tokens, special tokens, stop ids, padding, and what is refused."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from guided.vocabulary import Vocabulary, VocabularyError
from guided.vocabulary.sources import open_source
from guided.vocabulary.stop_ids import stop_ids

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
VOCAB = {"a": 0, "b": 1, "Ġ": 2, "Ġa": 3, "ab": 4, "<unk>": 5}


def added(token_id: int, content: str, special: bool) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": content, "special": special, **flags}


def tokenizer_json(added_tokens: list[dict[str, Any]], vocab: Any = None, kind: str = "BPE") -> dict[str, Any]:
    return {
        "version": "1.0",
        "added_tokens": added_tokens,
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "decoder": BYTE_LEVEL,
        "model": {"type": kind, "vocab": VOCAB if vocab is None else vocab, "merges": []},
    }


def write(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def read(folder: Path, **kwargs: Any) -> Vocabulary:
    return Vocabulary.from_pretrained(folder, cache_dir=folder / "cache", **kwargs)


SPECIALS = [added(6, "<|end|>", True), added(7, "<tool>", False), added(9, "héllo wörld", False)]


def test_every_kind_of_token(tmp_path: Path) -> None:
    vocabulary = read(write(tmp_path, tokenizer=tokenizer_json(SPECIALS)))
    expected = [b"a", b"b", b" ", b" a", b"ab", b"<unk>", b"", b"<tool>", b"", "héllo wörld".encode()]
    assert [vocabulary.bytes_of(i) for i in range(len(vocabulary))] == expected
    assert vocabulary.special_token_ids == {"<|end|>": 6}
    assert [vocabulary.is_text(i) for i in (0, 6, 7, 8)] == [True, False, True, False]
    assert vocabulary.eos_ids == ()
    with pytest.raises(IndexError):
        vocabulary.bytes_of(10)
    with pytest.raises(IndexError):
        vocabulary.bytes_of(-1)


def test_padding_is_never_text(tmp_path: Path) -> None:
    vocabulary = read(write(tmp_path, tokenizer=tokenizer_json(SPECIALS)), padded_size=64)
    assert len(vocabulary) == vocabulary.size == 64
    assert not any(vocabulary.is_text(i) for i in range(10, 64))
    assert sorted(vocabulary.trie.token_ids.tolist()) == [0, 1, 2, 3, 4, 5, 7, 9]


def test_ids_beyond_the_model_are_dropped(tmp_path: Path) -> None:
    folder = write(tmp_path, tokenizer=tokenizer_json(SPECIALS), generation_config={"eos_token_id": [1, 6]})
    vocabulary = read(folder, padded_size=5)
    assert (len(vocabulary), vocabulary.eos_ids, vocabulary.special_token_ids) == (5, (1,), {})
    with pytest.raises(VocabularyError, match="0 tokens"):
        read(folder, padded_size=0)


def test_equal_bytes_are_all_kept(tmp_path: Path) -> None:
    """As in GLM-4 and Phi-3, where a dictionary by content would lose ids."""
    doubles = [added(6, "ab", False), added(7, "ab", False), added(8, " ", False)]
    vocabulary = read(write(tmp_path, tokenizer=tokenizer_json(doubles)))
    assert [i for i in range(9) if vocabulary.bytes_of(i) == b"ab"] == [4, 6, 7]
    assert [i for i in range(9) if vocabulary.bytes_of(i) == b" "] == [2, 8]
    assert len(vocabulary.trie.token_ids) == 9


def test_a_piece_spelled_like_a_special_token_is_special(tmp_path: Path) -> None:
    vocabulary = read(write(tmp_path, tokenizer=tokenizer_json([added(6, "ab", True)])))
    assert [vocabulary.is_text(i) for i in (4, 6)] == [False, False]


def test_unigram_vocabulary(tmp_path: Path) -> None:
    document = tokenizer_json([], [["<unk>", 0.0], ["▁a", -1.0], ["<0x0A>", -2.0], ["b", -3.0]], "Unigram")
    document["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    }
    assert list(read(write(tmp_path, tokenizer=document)).token_bytes) == [b"<unk>", b" a", b"\n", b"b"]


def test_every_stop_id_counts(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        tokenizer=tokenizer_json(SPECIALS),
        tokenizer_config={"eos_token": {"content": "<|end|>", "special": True}},
        generation_config={"eos_token_id": [7, 1]},
        config={"eos_token_id": 0, "text_config": {"eos_token_id": 4}, "bos_token_id": 2},
    )
    vocabulary = read(folder)
    assert vocabulary.eos_ids == (0, 1, 4, 6, 7)
    assert not any(vocabulary.is_text(i) for i in vocabulary.eos_ids)
    assert vocabulary.is_text(2)


@pytest.mark.parametrize("value", [None, True, "2", -1, [None, "x", 3.0], {}, 10_000])
def test_what_is_no_stop_id_is_none(value: Any, tmp_path: Path) -> None:
    folder = write(tmp_path, tokenizer=tokenizer_json(SPECIALS), generation_config={"eos_token_id": value})
    assert read(folder).eos_ids == ()
    assert stop_ids({"eos_token_id": value}) - {10_000} == frozenset()


OVERLAYS = [
    {"added_tokens_decoder": {"7": added(7, "<tool>", True)}},
    {"added_tokens_decoder": {"10": added(10, "<new>", True), "11": added(11, "new text", False)}},
    {"eos_token": "<|end|>", "pad_token": "<pad>", "bos_token": None},
    {"additional_special_tokens": ["<tool>", "<extra>"], "unk_token": "<unk>"},
    {"extra_special_tokens": {"image_token": "<img>"}, "eos_token": {"content": "<|end|>", "__type": "AddedToken"}},
    {},
]


@pytest.mark.parametrize("config", OVERLAYS, ids=[",".join(config) or "empty" for config in OVERLAYS])
def test_config_is_read_as_transformers_reads_it(config: dict[str, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    document = tokenizer_json([*SPECIALS[:2], added(8, "<x>", True), added(9, "y z", False)])
    folder = write(
        tmp_path, tokenizer=document, tokenizer_config={"tokenizer_class": "PreTrainedTokenizerFast", **config}
    )
    vocabulary = read(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    from_object = Vocabulary.from_pretrained(tokenizer, cache_dir=tmp_path / "cache")
    assert list(from_object.token_bytes) == list(vocabulary.token_bytes)
    assert from_object.special_token_ids == vocabulary.special_token_ids
    assert from_object.eos_ids == vocabulary.eos_ids
    # A special token that transformers' engine still writes out, since both files say it is text, is left out here.
    written = [tokenizer.backend_tokenizer.decode([i], skip_special_tokens=True) for i in range(len(vocabulary))]
    named = set(vocabulary.special_token_ids.values())
    assert [text if i not in named else "" for i, text in enumerate(written)] == [
        piece.decode() for piece in vocabulary.token_bytes
    ]


def test_class_roles_are_special(tmp_path: Path) -> None:
    tokens = [added(6, "<mask>", False)]
    for tokenizer_class, is_text in (("GemmaTokenizerFast", False), ("GemmaTokenizer", False), ("Other", True)):
        write(tmp_path, tokenizer=tokenizer_json(tokens), tokenizer_config={"tokenizer_class": tokenizer_class})
        assert read(tmp_path).is_text(6) is is_text


def test_object_knows_the_stop_ids_of_its_folder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}
    folder = write(
        tmp_path,
        tokenizer=tokenizer_json(SPECIALS),
        tokenizer_config=config,
        generation_config={"eos_token_id": [6, 7]},
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    assert Vocabulary.from_pretrained(tokenizer, cache_dir=tmp_path / "cache").eos_ids == (6, 7)


def test_a_file_is_read_with_the_configs_beside_it(tmp_path: Path) -> None:
    folder = write(tmp_path, tokenizer=tokenizer_json(SPECIALS), config={"eos_token_id": 6})
    by_file = Vocabulary.from_pretrained(str(folder / "tokenizer.json"), cache_dir=tmp_path / "cache")
    assert by_file.digest == read(folder).digest
    assert by_file.eos_ids == (6,)


def tekken_json(special: bool) -> dict[str, Any]:
    vocab = [{"rank": i, "token_bytes": base64.b64encode(bytes([i])).decode(), "token_str": None} for i in range(256)]
    vocab.append({"rank": 256, "token_bytes": base64.b64encode("né".encode()).decode(), "token_str": "né"})
    vocab.append({"rank": 257, "token_bytes": base64.b64encode(b"beyond").decode(), "token_str": "beyond"})
    names = ["<unk>", "<s>", "</s>", "[THINK]"]
    tokens = [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(names)]
    config = {"pattern": ".", "num_vocab_tokens": 258, "default_vocab_size": 287, "default_num_special_tokens": 30}
    return {"config": {**config, "version": "v3"}, "vocab": vocab, **({"special_tokens": tokens} if special else {})}


@pytest.mark.parametrize("listed", [True, False])
def test_tekken_json(listed: bool, tmp_path: Path) -> None:
    vocabulary = read(write(tmp_path, tekken=tekken_json(listed)))
    assert len(vocabulary) == 287
    assert [vocabulary.bytes_of(i) for i in (0, 29, 30, 285, 286)] == [b"", b"", b"\x00", b"\xff", "né".encode()]
    assert vocabulary.eos_ids == (2,)
    assert vocabulary.special_token_ids["[THINK]" if listed else "[INST]"] == 3
    assert vocabulary.special_token_ids["<SPECIAL_29>"] == 29


def test_tiktoken_file(tmp_path: Path) -> None:
    lines = [f"{base64.b64encode(bytes([i])).decode()} {i}" for i in range(256)]
    lines.append(f"{base64.b64encode(b'hello').decode()} 256")
    (tmp_path / "tiktoken.model").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = {
        "added_tokens_decoder": {"258": added(258, "[EOS]", True), "259": added(259, "<think>", False)},
        "eos_token": "[EOS]",
    }
    vocabulary = read(write(tmp_path, tokenizer_config=config))
    assert [vocabulary.bytes_of(i) for i in (255, 256, 257, 258, 259)] == [b"\xff", b"hello", b"", b"", b"<think>"]
    assert vocabulary.eos_ids == (258,)


def test_mistral_files_come_first_beside_mistral_weights(tmp_path: Path) -> None:
    folder = write(tmp_path, tokenizer=tokenizer_json(SPECIALS), tekken=tekken_json(True))
    assert len(read(folder)) == 10
    (folder / "consolidated.safetensors").touch()
    assert len(read(folder)) == 287


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", "isn't JSON"),
        ("tokenizer.json", "[]", "isn't a JSON object"),
        ("tokenizer.json", "{}", "not a tokenizer.json"),
        ("tokenizer.json", json.dumps(tokenizer_json([], {"a": 1 << 40})), "out of range"),
        ("tokenizer.json", json.dumps(tokenizer_json([], {"a": -1})), "out of range"),
        ("tokenizer.json", json.dumps(tokenizer_json([added(1 << 40, "x", False)])), "added token"),
        ("tokenizer.json", json.dumps(tokenizer_json([{"id": 3, "special": True}])), "added token 3"),
        ("tokenizer.json", json.dumps({**tokenizer_json([]), "decoder": None}), "no decoder"),
        ("tekken.json", json.dumps({"vocab": [{}], "config": {}}), "not a tekken.json"),
        ("tokenizer.model", "garbage", "SentencePiece"),
        ("tiktoken.model", "YQ== 0\nYQ==\n", "tiktoken"),
    ],
)
def test_broken_files_say_what_is_wrong(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(VocabularyError, match=message):
        read(tmp_path)


def test_broken_config_beside_it_says_so(tmp_path: Path) -> None:
    write(tmp_path, tokenizer=tokenizer_json(SPECIALS))
    (tmp_path / "generation_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(VocabularyError, match=r"generation_config\.json isn't JSON"):
        read(tmp_path)


def test_unknown_objects_and_names_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VocabularyError, match=r"builtins\.dict holds none of"):
        Vocabulary.from_pretrained({})
    with pytest.raises(VocabularyError, match="holds no tokenizer"):
        read(tmp_path)
    with pytest.raises(VocabularyError, match="neither a file nor a folder"):
        Vocabulary.from_pretrained("../nowhere/to be found")


def test_hub_name_is_taken_from_the_local_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    snapshot = tmp_path / "models--someone--tiny" / "snapshots" / "0123456789abcdef0123456789abcdef01234567"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--someone--tiny" / "refs").mkdir()
    (tmp_path / "models--someone--tiny" / "refs" / "main").write_text(snapshot.name, encoding="utf-8")
    write(snapshot, tokenizer=tokenizer_json(SPECIALS), config={"eos_token_id": 6})
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    vocabulary = Vocabulary.from_table(open_source("someone/tiny").read())
    assert vocabulary.eos_ids == (6,)
    assert vocabulary.bytes_of(7) == b"<tool>"


def test_from_tokens() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"b", b"</s>", b"<x>"], eos_ids=[2], special_token_ids={"<x>": 3})
    assert list(vocabulary.token_bytes) == [b"a", b"b", b"", b""]
    assert vocabulary.trie.token_ids.tolist() == [0, 1]
    with pytest.raises(VocabularyError, match="outside"):
        Vocabulary.from_tokens([b"a"], eos_ids=[1])


def test_digest_depends_on_all_that_matters() -> None:
    base = Vocabulary.from_tokens([b"a", b"bc", b"", b"d"])
    others = [
        Vocabulary.from_tokens([b"a", b"bc", b"", b"d", b""]),
        Vocabulary.from_tokens([b"ab", b"c", b"", b"d"]),
        Vocabulary.from_tokens([b"a", b"bc", b"", b"d"], eos_ids=[2]),
        Vocabulary.from_tokens([b"a", b"bc", b"", b"d"], special_token_ids={"<x>": 2}),
        Vocabulary.from_tokens([b"a", b"bc", b"", b"d"], special_token_ids={"<y>": 2}),
    ]
    assert len({base.digest, *(other.digest for other in others)}) == 6
    assert base.digest == Vocabulary.from_tokens([b"a", b"bc", b"", b"d"]).digest
    assert base.digest == "6b92bb8cc23b155c200f6e70dab3baecaf82464a"  # stored indexes are filed under it
