"""The figures of the load tests that are computed rather than read off a clock."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from guided.compiler import build_network
from guided.constraint import Constraint
from guided.limits import Budget, Limits
from loadtests import compile_storm, mixed, plot, sample_schemas
from loadtests.by_kind import KINDS, PUBLISHED_PERCENT, Seen, report
from loadtests.compliance import TASKS, is_valid
from loadtests.report import finish, median, percentiles, show
from loadtests.requests import Streamed
from loadtests.soak import Memory
from tests.live_server import LiveServer


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """No automaton runs here: overrides the fixture that compiles for them."""


def test_percentiles_are_values_that_were_measured():
    assert percentiles(range(100)) == {"p50": 50, "p95": 95, "p99": 99}
    assert percentiles([7.04]) == {"p50": 7.0, "p95": 7.0, "p99": 7.0}
    assert percentiles([]) == {"p50": None, "p95": None, "p99": None}
    assert median([3, 1, 2]) == 2
    assert median([]) is None


def test_the_slope_of_memory_is_that_of_the_second_half():
    memory = Memory()
    for minute in range(61):
        memory.add(60.0 * minute, {"warm": 10 << 20, "filling": min(minute, 30) << 20, "leaking": minute << 20})
    assert memory.mib_per_hour() == {"warm": 0.0, "filling": 0.0, "leaking": 60.0}
    assert memory.mib(-1) == {"warm": 10, "filling": 30, "leaking": 60}
    assert Memory().mib_per_hour() == Memory().mib(0) == {}


def test_an_answer_counts_only_as_it_came():
    simple = TASKS["simple"][0]
    assert is_valid('{"city": "Oslo", "degrees": -3, "unit": "celsius"}', simple)
    assert not is_valid('```json\n{"city": "Oslo", "degrees": -3, "unit": "celsius"}\n```', simple)
    assert not is_valid('{"city": "Oslo", "degrees": -3.5, "unit": "celsius"}', simple)
    assert not is_valid('{"city": "Oslo", "degrees": -3, "unit": "celsius"} ', {**simple, "required": ["more"]})
    for schema, _ in TASKS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_overhead_and_goodput(capsys):
    def answer(first: float, gaps: list[float]) -> Streamed:
        return Streamed(status=200, first_ms=first, gaps_ms=gaps, text=" The harbour", finished=True)

    seen = {kind: Seen(speeds=[100.0]) for kind in KINDS}
    seen["json"].speeds = [80.0, 90.0, 85.0]
    for kind, kept in seen.items():
        kept.add(kind, answer(10, [5.0] * 20), ttft_ms=20, itl_ms=10)
        kept.add(kind, answer(30, [5.0] * 20), ttft_ms=20, itl_ms=10)  # too late
        kept.add(kind, answer(10, [50.0] * 20), ttft_ms=20, itl_ms=10)  # too slow
        kept.add(kind, Streamed(), ttft_ms=20, itl_ms=10)  # broken
    figures = report(seen)
    assert figures["json"]["overhead_percent"] == 15.0
    assert figures["plain"]["overhead_percent"] == 0.0
    assert figures["plain"]["goodput"] == 0.25
    assert {kind: f["wrong"] for kind, f in figures.items()} == {
        "plain": 0,
        "choice": 3,
        "regex": 0,
        "json": 3,
        "grammar": 3,
    }
    assert "overhead %" in capsys.readouterr().out


def test_the_last_line_is_json_and_names_the_machine(capsys):
    show("t", ["a", "b"], [[1, None]])
    finish({"x": 1})
    lines = capsys.readouterr().out.splitlines()
    last = json.loads(lines[-1])
    assert last["x"] == 1
    assert last["machine"]["cores"] >= 1
    assert lines[-2].split() == ["1", "-"]


# --- schemas to load a server with ------------------------------------------------------------------------------------


def test_without_a_file_the_schemas_are_made_up_and_somebody_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sample_schemas, "DEFAULT", tmp_path / "none.jsonl.gz")
    found = sample_schemas.schemas()
    assert "no real schemas" in capsys.readouterr().err
    assert len({json.dumps(schema) for schema in found}) == len(found) == sample_schemas.MADE_UP
    assert len(json.dumps(found[0])) > len(json.dumps(found[-1]))
    for schema in found[::97]:
        jsonschema.Draft202012Validator.check_schema(schema)
        Constraint.json_schema(schema)


def test_made_up_schemas_are_enforced_and_not_refused():
    """Each shape, through the stage that refuses keywords; nothing is compiled."""
    for number in range(40):
        build_network(Constraint.json_schema(sample_schemas.made_up(number)), Budget(Limits()))


def test_schemas_of_a_file(tmp_path, capsys):
    path = tmp_path / "sample.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"schema": {"enum": list(range(n))}}) + "\n" for n in (1, 3, 2))
    assert [len(schema["enum"]) for schema in sample_schemas.schemas(path)] == [3, 2, 1]
    assert capsys.readouterr().err == ""
    with pytest.raises(FileNotFoundError):
        sample_schemas.schemas(tmp_path / "other.gz")


@pytest.mark.parametrize("name", ["compile_storm", "repeated_constraint"])
def test_no_file_is_read_before_a_test_starts(name, monkeypatch):
    """So that --help and a clone without data work."""
    monkeypatch.setattr(sample_schemas, "schemas", lambda path=None: pytest.fail("read at import"))
    importlib.reload(importlib.import_module(f"loadtests.{name}"))


# --- the storm --------------------------------------------------------------------------------------------------------


def test_the_storm_of_another_server_has_neither_memory_nor_times_until_calm(capsys):
    found = compile_storm.Rounds(p99_ms={"quiet": [50.0, 60.0], "plain": [50.0, 60.0], "storm": [55.0, 66.0]})
    found.remember(LiveServer("http://127.0.0.1:1", "m"))
    found.calm_s = [None, 3.04]
    found.total.statuses["hostile"].update({400: 8, 429: 1, 500: 1})
    found.total.statuses["real"].update({200: 80, 0: 10})
    found.total.seconds = {"real": [0.5], "hostile": [1.0]}
    figures = compile_storm.report(found)
    assert figures["p99_itl_ratio"] == 1.1
    assert (figures["hostile_refused"], figures["hostile_sent"], figures["failed_streams"]) == (9, 10, 0)
    assert figures["seconds_until_calm"] == [None, 3.0]
    assert figures["own_mib"] == {}
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["real", "90", "80", "0", "10", "0.5", "0.5"] in rows
    assert ["hostile", "10", "0", "9", "1", "1.0", "1.0"] in rows
    assert ["storm", "55.0", "66.0"] in rows


def test_streams_that_write_nothing_are_no_quiet_round():
    with pytest.raises(SystemExit, match="503"):
        compile_storm.p99([Streamed(status=503, error="gone")])
    assert compile_storm.p99([Streamed(gaps_ms=[5.0, 7.0]), Streamed()]) == pytest.approx(7.0, abs=0.1)


def test_the_bodies_of_a_storm_are_json_with_schemas_of_their_own():
    real = [{"title": f"{number}"} for number in range(compile_storm.STORM)]
    bodies = [compile_storm.bodies("m", real, number) for number in (0, 1, None)]
    assert len(set(bodies[0] + bodies[1])) == 2 * compile_storm.STORM
    assert json.loads(bodies[0][1])["structured_outputs"]["json"] == {"title": "1", "$id": "/0"}
    assert all("structured_outputs" not in json.loads(body) for body in bodies[2])


# --- plain and guided streams in one batch ----------------------------------------------------------------------------


def test_guided_streams_stand_between_plain_ones():
    assert mixed.kinds(4, 0) == ["plain"] * 4
    assert mixed.kinds(4, 0.5) == ["plain", "choice", "plain", "regex"]
    assert mixed.kinds(6, 1) == ["choice", "regex", "json", "grammar", "choice", "regex"]
    for share in (0.1, 0.3, 0.7):
        assert sum(kind != "plain" for kind in mixed.kinds(10, share)) == round(10 * share)


def test_what_guided_streams_do_to_plain_ones(capsys):
    alone, half = mixed.Mixture(speeds=[100.0]), mixed.Mixture(speeds=[90.0], failed=1)
    fine = {"status": 200, "first_ms": 10.0, "finished": True}
    alone.seen["plain"].add("plain", Streamed(gaps_ms=[50.0] * 9, text=" The", **fine), 20, 100)
    half.seen["plain"].add("plain", Streamed(gaps_ms=[60.0] * 9, text=" The", **fine), 20, 100)
    half.seen["guided"].add("grammar", Streamed(gaps_ms=[70.0] * 9, text="The", **fine), 20, 100)
    figures = mixed.report({0.0: alone, 0.5: half})
    assert figures["plain_itl_ratio"] == 1.2
    assert (figures["failed"], figures["wrong"]) == (1, 1)
    assert figures["shares"]["0.5"]["guided"]["itl_ms"]["p99"] == 70.0
    assert "guided" not in figures["shares"]["0"]
    assert "50% guided: plain" in capsys.readouterr().out
    assert mixed.report({0.5: half})["plain_itl_ratio"] is None


# --- charts -----------------------------------------------------------------------------------------------------------


def chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: dict[str, Any]) -> list[str]:
    """Texts of the chart that `loadtests.plot` writes."""
    source, target = tmp_path / "figures.json", tmp_path / "chart.svg"
    source.write_text(f"a table\n{json.dumps(figures)}\n")
    monkeypatch.setattr("sys.argv", ["plot", str(source), str(target)])
    plot.main()
    return [element.text or "" for element in ElementTree.parse(target).iter("{http://www.w3.org/2000/svg}text")]


def test_a_chart_by_kind_has_what_is_published_beside_it(tmp_path, monkeypatch):
    speeds = {"plain": 100.0, "regex": 99.0, "grammar": 90.0}
    kinds = {kind: {"tokens_per_second": speed} for kind, speed in speeds.items()}
    texts = chart(tmp_path, monkeypatch, {"kinds": kinds, "published_overhead_percent": PUBLISHED_PERCENT})
    values = [text for text in texts if text.endswith("tokens/s")]
    assert values == [f"{value} tokens/s" for value in ("100", "99", "98.5", "90", "76.5")]
    assert PUBLISHED_PERCENT.keys() == KINDS.keys() - {"plain"}


def test_a_chart_of_a_storm_has_every_round(tmp_path, monkeypatch):
    texts = chart(
        tmp_path, monkeypatch, {"p99_itl_ms": {"quiet": [50.0, 60.0], "plain": [51.0, 61.0], "storm": [52.0, 62.0]}}
    )
    assert [text for text in texts if text.endswith(" ms")] == [f"{value} ms" for value in (50, 51, 52, 60, 61, 62)]
    assert {"round 1", "round 2", "quiet", "100 plain requests", "100 new schemas"} <= set(texts)


def test_figures_that_have_no_chart_are_refused(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="no figures of"):
        chart(tmp_path, monkeypatch, {"calls": 3})
