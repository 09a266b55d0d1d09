"""The `guided` command: what it prints, for people and for machines, and its exit codes."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from guided.automaton.lazy_dfa import LazyDfa
from guided.cli import main
from guided.compiler import build_network
from guided.constraint import Constraint
from guided.explain.characters import CharacterView
from guided.limits import Budget, Limits

ROOT = Path(__file__).resolve().parents[2]
OCTETS = r"(\d{1,3}\.){3}\d{1,3}"
SCHEMA = (
    '{"type": "object", "properties": {"age": {"type": "integer", "maximum": 99, "minimum": 0}}, "required": ["age"]}'
)


@pytest.fixture
def guided(capsys, monkeypatch, tmp_path):
    """Runs the command in this process, without an embedded model: (exit code, stdout, stderr)."""
    monkeypatch.setenv("GUIDED_CACHE_DIR", str(tmp_path / "cache"))

    def run(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin.encode())))
        try:
            code = main([*arguments, "--limit-seconds", "300"])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


# --- check ------------------------------------------------------------------------------------------------------------


def test_a_match(guided):
    assert guided("check", "--regex", OCTETS, "192.168.1.1")[:2] == (0, "matches\n")
    code, out, _ = guided("check", "--regex", OCTETS, "192.168.1.1", "--json")
    assert (code, json.loads(out)) == (0, {"ok": True, "matches": True})


def test_where_a_text_stops(guided):
    code, out, _ = guided("check", "--regex", OCTETS, "192.168.x.1")
    assert code == 1
    assert "character 8, byte 8" in out
    lines = out.splitlines()
    assert lines[1][lines[2].index("^")] == "x"
    assert "[0-9]" in out


def test_where_a_text_stops_for_machines(guided):
    code, out, _ = guided("check", "--choice", "rouge", "--choice", "bleu", "--choice", "bleuâtre", "bleuté", "--json")
    found = json.loads(out)
    assert code == 1
    assert (found["matches"], found["incomplete"], found["character"], found["byte"]) == (False, False, 4, 4)
    assert (found["allowed"], found["continuations"], found["may_end"]) == ("â", ["âtre"], True)


def test_the_caret_is_under_the_character_of_its_line(guided):
    code, out, _ = guided("check", "--regex", r"日本\n語[0-9]", "日本\n語x")
    lines = out.splitlines()
    assert (code, lines[1:3]) == (1, ["  語x", "    ^"])


def test_a_text_from_stdin_loses_its_last_line_break_only(guided):
    assert guided("check", "--regex", "a\n?", "-", stdin="a\n")[0] == 0
    assert guided("check", "--regex", "a", "-", stdin="a\n")[0] == 0
    assert guided("check", "--regex", "a", "-", "--keep-newline", stdin="a\n")[0] == 1
    assert guided("check", "--regex", "a", "-", stdin="a\n\n")[0] == 1


def test_schema_options_count(guided):
    indented = '{\n  "age": 5\n}'
    assert guided("check", "--json-schema", SCHEMA, indented)[0] == 0
    assert guided("check", "--json-schema", SCHEMA, "--whitespace", "compact", indented)[0] == 1
    extra = '{"age": 5, "b": 1}'
    assert guided("check", "--json-schema", SCHEMA, extra)[0] == 1
    assert guided("check", "--json-schema", SCHEMA, "--additional-properties", "allow", extra)[0] == 0


def test_files(guided, tmp_path):
    (tmp_path / "lines").write_text("eins\nzwei\n", encoding="utf-8")
    (tmp_path / "list").write_text('["eins", "zwei\\n"]', encoding="utf-8")
    (tmp_path / "schema").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "lark").write_text('start: "a" start? "b"\n', encoding="utf-8")
    (tmp_path / "gbnf").write_text('root ::= "a" root? "b"\n', encoding="utf-8")
    assert guided("check", "--choices", str(tmp_path / "lines"), "zwei")[0] == 0
    assert guided("check", "--choices", str(tmp_path / "list"), "zwei")[0] == 1
    assert guided("check", "--choices", str(tmp_path / "list"), "zwei\n")[0] == 0
    assert guided("check", "--schema", str(tmp_path / "schema"), '{"age": 7}')[0] == 0
    for syntax in ("lark", "gbnf"):
        assert guided("check", "--grammar", str(tmp_path / syntax), "--syntax", syntax, "aabb")[0] == 0
        assert guided("check", "--grammar", str(tmp_path / syntax), "--syntax", syntax, "aab")[0] == 1


def test_tokens_that_are_allowed(guided, model_folder):
    code, out, _ = guided("check", "--regex", "a(bc|[0-9])", "ax", "--tokenizer", str(model_folder), "--json")
    tokens = json.loads(out)["tokens"]
    assert code == 1
    assert tokens["count"] == 12  # b, bc and ten digits
    assert {"b", "0"} <= set(tokens["sample"])


# --- refusals and wrong usage -------------------------------------------------------------------------------------------


def test_a_refusal_shows_the_column(guided):
    code, out, err = guided("check", "--regex", "ab(c", "abc")
    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert lines[0].startswith("refused (invalid_constraint)")
    assert lines[1][lines[2].index("^")] == "("


def test_a_refusal_shows_the_pointer(guided):
    schema = (
        '{"properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["a"], "type": "object"}'
    )
    code, out, _ = guided("check", "--json-schema", schema, "{}", "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["error"]["code"]) == (1, False, "unsatisfiable")
    assert found["error"]["pointer"].startswith("/properties/a")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "x"],
        ["check", "--regex", "a", "--choice", "b", "x"],
        ["check", "--regex", "a", "--whitespace", "any", "x"],
        ["check", "--regex", "a", "--syntax", "lark", "x"],
        ["check", "--schema", "/no/such/file", "x"],
        ["check", "--regex", "a", "--tokenizer", "/no/such/folder", "x"],
        ["compile", "--regex", "a"],
        ["plot", "--regex", "a", "--max-states", "0"],
        ["plot", "--regex", "a", "--output", "/no/such/folder/a.svg"],
        ["paint", "--regex", "a"],
        [],
    ],
)
def test_wrong_usage(guided, arguments):
    code, out, err = guided(*arguments)
    assert (code, out) == (2, "")
    assert err.strip()


# --- compile and explain --------------------------------------------------------------------------------------------------


def test_compile_writes_an_index_that_loads(guided, vocabulary, model_folder, tmp_path):
    from guided.constraint import Constraint
    from guided.index import file as index_file

    target = tmp_path / "cve.index"
    pattern = r"CVE-\d{4}-\d{4,7}"
    common = ["--regex", pattern, "--tokenizer", str(model_folder)]
    code, out, _ = guided("compile", *common, "--output", str(target), "--json")
    found = json.loads(out)
    assert (code, found["closed"], found["file"]) == (0, True, str(target))
    assert found["digest"] == Constraint.regex(pattern).digest
    assert {"network", "automaton", "first mask", "whole index"} <= found["seconds"].keys()
    index = index_file.load(target, vocabulary, found["digest"]).index
    assert index.is_closed and index.num_states == found["states"] and index.num_rows == found["rows"]
    assert index.accepts("CVE-2024-1234") and not index.accepts("CVE-2024-123")


def test_compile_for_people(guided, model_folder):
    code, out, _ = guided("compile", "--regex", "a|b", "--tokenizer", str(model_folder))
    assert code == 0
    assert re.search(r"^closed +yes$", out, re.MULTILINE)
    assert re.search(r"^vocabulary +49,152 tokens", out, re.MULTILINE)


def test_what_never_closes_is_no_error_but_no_file_either(guided, model_folder, tmp_path):
    (tmp_path / "pairs.lark").write_text('start: "(" start* ")"\n', encoding="utf-8")
    common = [
        "compile",
        "--grammar",
        str(tmp_path / "pairs.lark"),
        "--tokenizer",
        str(model_folder),
        "--limit-states",
        "500",
    ]
    code, out, _ = guided(*common, "--json")
    found = json.loads(out)
    assert (code, found["closed"], found["file"]) == (0, False, None)
    assert "500" in found["stopped"]
    code, out, _ = guided(*common, "--output", str(tmp_path / "pairs.index"))
    assert code == 1
    assert "not written" in out
    assert not (tmp_path / "pairs.index").exists()


@pytest.mark.parametrize(
    ("pattern", "fewest", "most"),
    [("ab", 1, 2), ("(yes|no)!?", 1, 4), ("x[0-9]{2,6}", 3, 7), ("a+", 1, None), ("", 0, 0)],
)
def test_token_counts(guided, model_folder, pattern, fewest, most):
    code, out, _ = guided("explain", "--regex", pattern, "--tokenizer", str(model_folder), "--json")
    found = json.loads(out)
    assert (code, found["closed"], found["min_tokens"], found["max_tokens"]) == (0, True, fewest, most)
    assert re.fullmatch(pattern, found["shortest"])
    assert found["samples"] and all(re.fullmatch(pattern, sample) for sample in found["samples"])


def test_explain_for_people(guided, model_folder):
    code, out, _ = guided("explain", "--json-schema", SCHEMA, "--tokenizer", str(model_folder))
    assert code == 0
    for line in ("kind +json", "closed +yes", "fewest tokens +[0-9]+", "begins with +{", r'shortest +{"age":0}'):
        assert re.search(f"^{line}", out, re.MULTILINE), line


def test_samples_end_with_the_clock():
    from guided.cli.explain import _samples

    now = iter(range(100))
    budget = Budget(Limits(seconds=5.0), clock=lambda: next(now))
    view = CharacterView(LazyDfa(build_network(Constraint.regex("[a-z]{40}"), Budget()), Budget()))
    assert 0 < len(_samples(view, 1_000_000, seed=0, budget=budget)) <= 5


# --- plot -----------------------------------------------------------------------------------------------------------------


def test_plot(guided, tmp_path):
    target = tmp_path / "a.svg"
    code, out, _ = guided("plot", "--regex", "(ab|c)+", "--output", str(target))
    assert (code, out) == (0, "")
    assert ElementTree.parse(target).getroot().tag.endswith("svg")
    code, out, _ = guided("plot", "--regex", "(ab|c)+")
    assert (code, out) == (0, target.read_text(encoding="utf-8"))
    code, out, _ = guided("plot", "--json-schema", SCHEMA, "--json")
    found = json.loads(out)
    assert (code, found["whole"], found["cut"]) == (0, True, False)
    assert "age" in found["svg"]


PLOTS = re.findall(
    r"^    \$ guided (plot .*) --output (\S+\.svg)$", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.M
)


@pytest.mark.parametrize(("words", "picture"), PLOTS, ids=[picture for _, picture in PLOTS])
def test_the_pictures_of_the_documentation_are_what_is_drawn_now(guided, words, picture):
    """A picture that is out of date is drawn anew by the command above it."""
    code, out, _ = guided(*shlex.split(words))
    assert (code, out) == (0, (ROOT / "docs" / "pictures" / picture).read_text(encoding="utf-8"))


def test_every_plot_of_the_documentation_has_its_command():
    assert {picture for _, picture in PLOTS} == {"ipv4-port.svg", "weather.svg"}


def test_the_commands_of_the_readme(guided, model_folder, monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = re.findall(
        r"^\.venv/bin/guided (.*?)(?:  +#.*)?$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M
    )
    assert len(commands) == 3
    for words in map(shlex.split, commands):
        tokenizer = ["--tokenizer", str(model_folder)] if words[0] == "explain" else []
        code, out, said = guided(*words, *tokenizer)
        assert (code, said) == (1 if words[0] == "check" else 0, "") and out


def test_a_title_that_is_no_text_is_refused(guided):
    code, _, said = guided("plot", "--regex", "a", "--title", "\udcff")
    assert code == 2 and "--title is not Unicode text" in said


def test_a_byte_order_mark_is_no_part_of_a_file(guided, tmp_path):
    path = tmp_path / "a.schema.json"
    path.write_bytes(b"\xef\xbb\xbf" + SCHEMA.encode())
    assert guided("check", "--schema", str(path), '{"age":3}')[0] == 0


# --- the process ----------------------------------------------------------------------------------------------------------


def command(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "guided.cli", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )


def test_exit_codes_of_the_process():
    assert command("check", "--regex", "a+", "aaa").returncode == 0
    assert command("check", "--regex", "a+", "-", input="ab\n").returncode == 1
    wrong = command("check", "aaa")
    assert wrong.returncode == 2
    assert "required" in wrong.stderr
    misspelt = command("check", "--regx", "a+", "aaa")
    assert misspelt.returncode == 2 and "unrecognized arguments: --regx" in misspelt.stderr
    assert command("--version").stdout.startswith("guided-server ")


def test_help_needs_no_numba():
    code = (
        "import sys\nfrom guided.cli import main\ntry:\n    main(['explain', '--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'numba', 'numpy', 'torch'} & sys.modules.keys(), sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "--samples" in done.stdout


def test_the_example_of_the_documentation(guided, model_folder):
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    example = re.search(r"^    \$ guided check (.*)\n((?:    .*\n)+)", page, re.MULTILINE)
    assert example
    code, out, _ = guided("check", *shlex.split(example[1]), "--tokenizer", str(model_folder))
    assert code == 1
    assert out == "".join(line[4:] for line in example[2].splitlines(keepends=True))


def test_the_index_leaves_out_what_the_tokenizer_cannot_write(guided, tmp_path):
    vocab = {"a": 0, "b": 1, "</s>": 2}
    tokenizer = {"model": {"type": "BPE", "vocab": vocab, "merges": []}, "decoder": {"type": "ByteLevel"}}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    code, out, _ = guided("explain", "--regex", "a[bx]|xa", "--tokenizer", str(file), "--json")
    assert (code, json.loads(out)["samples"]) == (0, ["ab"])
    code, _, err = guided("compile", "--regex", "x", "--tokenizer", str(file))
    assert code == 1
    assert "vocabulary" in err


def test_a_line_of_choices_ends_at_a_line_feed_only(guided):
    lines = "one\u2028still one\r\n\x0ctwo\n"
    for text, code in (("one\u2028still one", 0), ("\x0ctwo", 0), ("one", 1), ("two", 1), ("", 1)):
        assert guided("check", "--choices", "-", text, stdin=lines)[0] == code
    assert guided("check", "--choices", "-", "", stdin="")[0] == 1  # no choice at all is refused


# --- lint -------------------------------------------------------------------------------------------------------------


def test_lint(guided):
    code, out, _ = guided("lint", "-", stdin=SCHEMA)
    assert code == 0
    assert out.splitlines()[0] == "/properties/age: no-unknown"
    assert "1 warning\n" in out
    assert guided("lint", "-", "--strict", stdin=SCHEMA)[0] == 1
    assert guided("lint", "-", "--strict", stdin='{"type": "null"}')[:2] == (
        0,
        "no warnings\ntokens: not counted, no --tokenizer was given\n",
    )


def test_lint_for_machines(guided, model_folder):
    code, out, _ = guided("lint", "-", "--json", "--tokenizer", str(model_folder), stdin=SCHEMA)
    found = json.loads(out)
    assert (code, [(one["code"], one["pointer"]) for one in found["warnings"]]) == (
        0,
        [("no-unknown", "/properties/age")],
    )
    tokens = found["tokens"]
    assert tokens["is_exact"] and tokens["fewest"] <= tokens["typical"] < tokens["max_tokens"] <= tokens["most"] + 1


def test_a_schema_that_is_refused_has_no_lint(guided):
    code, out, _ = guided("lint", "-", "--json", stdin='{"type": "intger"}')
    assert (code, json.loads(out)["error"]["pointer"]) == (1, "/type")


def test_explain_shows_the_normal_form(guided, model_folder):
    schema = '{"allOf": [{"type": ["integer", "null"]}, {"minimum": 3}]}'
    code, out, _ = guided("explain", "--json-schema", schema, "--tokenizer", str(model_folder), "--json")
    assert (code, json.loads(out)["normal_form"]) == (0, ["#0 = null | integer >= 3"])


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1"])
def test_a_limit_that_limits_nothing_is_refused(seconds, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["explain", "--regex", "a", f"--limit-seconds={seconds}"])
    assert stopped.value.code == 2 and "seconds" in capsys.readouterr().err


# --- structural tags --------------------------------------------------------------------------------------------------

TAG = '{"structures": [{"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}], "triggers": ["<f"]}'


def test_a_structural_tag_is_checked_and_explained(guided, tmp_path, model_folder):
    file = tmp_path / "calls.tag.json"
    file.write_text(TAG)
    assert guided("check", "--structural-tag", str(file), "see <f>12</f>.")[0] == 0
    code, out, _ = guided("check", "--structural-tag", str(file), "see <f>x")
    assert (code, "stops at character 7" in out) == (1, True)
    code, out, _ = guided("explain", "--structural-tag", "-", "--tokenizer", str(model_folder), stdin=TAG)
    assert code == 0
    assert "structural_tag" in out


def test_lint_says_that_a_structural_tag_is_no_schema(guided):
    code, _, err = guided("lint", "-", stdin=TAG)
    assert code == 2
    assert "structural tag" in err
