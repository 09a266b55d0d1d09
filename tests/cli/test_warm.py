"""`guided warm`: files of constraints by name, their indexes in the cache, refusals named."""

from __future__ import annotations

import json

import pytest

from guided.cache import Disk
from guided.cli import main
from guided.constraint import Constraint
from guided.constraint_files import find_files, read_file
from guided.errors import InvalidConstraint

FILES = {
    "a.schema.json": ('{"type": "integer"}', Constraint.json_schema({"type": "integer"})),
    "b.regex": ("[0-9]{2}\n", Constraint.regex("[0-9]{2}")),
    "c.lark": ('start: "x"+', Constraint.grammar('start: "x"+', syntax="lark")),
    "d.gbnf": ('root ::= "x"', Constraint.grammar('root ::= "x"', syntax="gbnf")),
    "e.choices": ("yes\nno\n", Constraint.choice(["yes", "no"])),
}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "constraints"
    (folder / "..data").mkdir(parents=True)
    for name, (text, _) in FILES.items():
        (folder / name).write_text(text)
        (folder / "..data" / name).write_text(text)  # as Kubernetes mounts a ConfigMap
    (folder / "README.md").write_text("not a constraint")
    return folder


def test_files_are_constraints_by_name(folder):
    found = find_files([folder, folder / "b.regex"])
    assert [path.name for path in found] == list(FILES)
    assert [read_file(path) for path in found] == [constraint for _, constraint in FILES.values()]


def test_a_file_that_was_named_has_to_be_one(folder, tmp_path):
    with pytest.raises(OSError, match=r"no constraint by its name .*README\.md"):
        find_files([folder / "README.md"])
    with pytest.raises(OSError, match="missing"):
        find_files([tmp_path / "missing.regex"])


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "x.regex").write_bytes(b"\xff")
    with pytest.raises(InvalidConstraint, match="UTF-8"):
        read_file(tmp_path / "x.regex")


def test_warm(folder, tmp_path, capsys, model_folder, vocabulary):
    (folder / "wrong.regex").write_text("(")
    command = ["warm", str(folder), "--tokenizer", str(model_folder), "--folder", str(tmp_path / "indexes"), "--json"]
    assert main(command) == 1
    results = {r["file"].rsplit("/", 1)[1]: r for r in json.loads(capsys.readouterr().out)["constraints"]}
    assert results.pop("wrong.regex")["state"] == "refused"
    assert {r["state"] for r in results.values()} == {"closed"}
    disk = Disk(tmp_path / "indexes", vocabulary)
    for name, (_, constraint) in FILES.items():
        assert results[name]["digest"] == constraint.digest
        assert disk.load(constraint.digest) is not None
    (folder / "wrong.regex").unlink()
    assert main(command) == 0
    assert {r["state"] for r in json.loads(capsys.readouterr().out)["constraints"]} == {"present"}
    assert main(command[:-1]) == 0
    assert "a.schema.json: present" in capsys.readouterr().out


@pytest.mark.parametrize("argument", ["README.md", "missing.regex"])
def test_wrong_usage(folder, argument, capsys):
    assert main(["warm", str(folder / argument)]) == 2
    assert argument in capsys.readouterr().err


def test_what_cannot_be_written_is_no_success(folder, tmp_path, capsys, model_folder):
    (tmp_path / "taken").write_text("a file where the folder of the cache should be")
    arguments = ["warm", str(folder / "b.regex"), "--tokenizer", str(model_folder), "--folder", str(tmp_path / "taken")]
    assert main([*arguments, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_a_folder_without_constraints(tmp_path, capsys, model_folder):
    assert main(["warm", str(tmp_path), "--tokenizer", str(model_folder)]) == 2
    assert "no constraint" in capsys.readouterr().err
