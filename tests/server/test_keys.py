"""Keys: from a file, from the environment, from vLLM's flag; kept as digests; the file may change while the server runs."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from server import keys
from server.keys import KeyRing, KeysWrong, from_plain, read_file, read_text

ONE, TWO, THREE, FOUR = (f"sk-{number}-0123456789abcdef" for number in range(4))


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def test_names_digests_and_bare_keys_of_a_variable():
    found = read_text(f"team-a={ONE}, team-b=sha256:{digest('sk-2')} ,{THREE},c==0123456789abcde==", "api-key")
    assert [key.name for key in found] == ["team-a", "team-b", "api-key-3", "c"]
    ring = KeyRing(found)
    assert [ring.find(k).name for k in (ONE, "sk-2", THREE, "=0123456789abcde==")] == [key.name for key in found]
    assert ring.find(FOUR) is None and ring.find("") is None
    assert not ring.has_admin and ring.is_closed


@pytest.mark.parametrize(
    ("text", "said"),
    [("a=sha256:12", "64 hexadecimal"), ("a=", "fewer than 16"), ("YWJjZGVmZ2hpamtsbW5v==", "fewer than 16")],
)
def test_what_is_wrong_in_a_variable_is_said_without_the_key(text, said):
    with pytest.raises(KeysWrong, match=said):
        read_text(text, "api-key")


def test_keys_of_vllm_and_of_operators():
    ring = KeyRing([*from_plain(["one", "two", ""]), *read_text(ONE, "admin-key", admin=True)])
    assert [(k.name, k.admin) for k in ring.keys] == [("vllm-key", False), ("vllm-key-2", False), ("admin-key", True)]


def test_without_keys_nothing_is_closed():
    assert not KeyRing().is_closed


def test_an_empty_file_of_keys_lets_nobody_in(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text("keys: []\n")
    assert KeyRing(file=path).is_closed


def entry(name: str, key: str, more: str = "") -> str:
    return f"  - {{name: {name}, sha256: {digest(key)}{more}}}\n"


def test_the_file_is_read_again_when_it_changes(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(keys, "_LOOK_AGAIN_SECONDS", 0.0)
    path = tmp_path / "keys.yaml"
    path.write_text("keys:\n" + entry("a", "sk-a", ", requests_per_minute: 5, admin: true"))
    ring = KeyRing(file=path)
    found = ring.find("sk-a")
    assert (found.name, found.requests_per_minute, found.concurrent_requests, found.admin) == ("a", 5, None, True)
    path.write_text("keys:\n" + entry("b", "sk-b"))
    os.utime(path, ns=(1, 1))
    assert ring.find("sk-a") is None and ring.find("sk-b").name == "b"
    path.write_text("keys: nonsense\n")
    os.utime(path, ns=(2, 2))
    assert ring.find("sk-b").name == "b"
    assert "stay as they were" in caplog.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keys:\n  - {name: a}\n", "sha256"),
        ("keys:\n  - {name: a, sha256: sk-secret}\n", "sha256"),
        ("keys:\n" + entry("a", "x", ", adnim: true"), "adnim"),
        ("keys:\n" + entry("a b", "x"), "name"),
        ("[1", "no YAML"),
        ("", "the file"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_without_secrets(tmp_path, text, said):
    path = tmp_path / "keys.yaml"
    path.write_text(text)
    with pytest.raises(KeysWrong, match=said) as raised:
        read_file(path)
    assert "sk-secret" not in str(raised.value)


def test_two_keys_do_not_share_a_name_or_a_digest(tmp_path):
    with pytest.raises(KeysWrong, match="are called a"):
        KeyRing(read_text(f"a={ONE},a={TWO}", "k"))
    with pytest.raises(KeysWrong, match="two names"):
        KeyRing(read_text(f"a={ONE},b={ONE}", "k"))


def test_making_a_key_prints_it_once_and_its_digest(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["keys", "team-a", "--admin"])
    keys.main()
    first, _, line = capsys.readouterr().out.splitlines()
    path = tmp_path / "keys.yaml"
    path.write_text(f"keys:\n{line}\n")
    found = KeyRing(file=path).find(first.rsplit(" ", 1)[1])
    assert found.name == "team-a" and found.admin


def test_a_first_admin_key_in_the_file_closes_the_admin_routes(tmp_path, monkeypatch):
    file = tmp_path / "keys"
    team = {"name": "team", "sha256": digest(ONE)}
    file.write_text(json.dumps({"keys": [team]}))
    ring = KeyRing((), file)
    assert not ring.has_admin
    monkeypatch.setattr("server.keys._LOOK_AGAIN_SECONDS", 0.0)
    file.write_text(json.dumps({"keys": [team, {"name": "ops", "sha256": digest(THREE), "admin": True}]}))
    assert ring.has_admin
