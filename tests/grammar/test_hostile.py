"""Grammars made to explode: an answer or a limit; ambiguity must not make configurations grow."""

import pytest

from guided.automaton.lazy_dfa import LazyDfa
from guided.errors import ConstraintError, LimitExceeded
from guided.grammar import build_network
from guided.limits import Budget, Limits


def rules(count, write):
    """A start rule that is any of `count` rules."""
    return (
        "start: "
        + " | ".join(f"r{i}" for i in range(count))
        + "\n"
        + "".join(f"r{i}: {write(i)}\n" for i in range(count))
    )


def mutual(number):
    return " | ".join(f'r{(number * j + 1) % 300} "x{j}"' for j in range(1, 6)) + f' | "y{number}"'


EXPLODING = {
    "nested stars": 'start: (((("a"*)*)*)*)* "b"\n',
    "nested stars in a terminal": 'start: A "b"\nA: /((a*)*)*/\n',
    "terminal that may be empty": 'start: A "b"\nA: /a*/\n',
    "100 ways": rules(100, lambda _: '"a" start? | "a" "b"* start'),
    "100 ways, twice": rules(100, lambda _: 'start start | "a"'),
    "template without end": 'start: t{"a"}\nt{x}: x | t{u{x}}\nu{x}: x x\n',
    "a billion times": 'start: ((("a"~1..1000)~1..1000)~1..1000)\n',
    "a billion times, GBNF": 'root ::= (("a"{1,1000}){1,1000}){1,1000}\n',
    "1.7 MB": rules(150_000, lambda _: '"k"'),
    "3,000 rules in a chain": rules(3000, lambda i: f'r{min(i + 1, 2999)} "x" | "y"'),
    "300 rules, mutually left recursive": rules(300, mutual),
    "terminal of 2^40 states": "start: /(a|b)*a(a|b){40}/\n",
    "terminal of 2^40 letters": "start: T0\n" + "".join(f"T{i}: T{i + 1} T{i + 1}\n" for i in range(40)) + 'T40: "a"\n',
    "rule of 2^40 letters": "start: t0\n" + "".join(f"t{i}: t{i + 1} t{i + 1}\n" for i in range(40)) + 't40: "a"\n',
    "cycle": 'start: a\na: b | "x"\nb: a | b\n',
}


@pytest.mark.parametrize("grammar", EXPLODING.values(), ids=EXPLODING.keys())
def test_an_answer_or_a_limit_without_exploding(grammar):
    """The clock is not what stops them: their automata stay small, or it is soon seen that they cannot."""
    patient = Limits(seconds=60)
    try:
        network = build_network(grammar, {}, Budget(patient))
        dfa = LazyDfa(network, Budget(patient))
        dfa.advance(dfa.start, b"a" * 200)
        assert network.size[0] < 100_000 and dfa.num_states < 2_000
    except LimitExceeded as error:
        assert error.limit != "seconds"
    except ConstraintError as error:
        assert str(error)


@pytest.mark.parametrize(
    "grammar, unit",
    [
        ('start: s\ns: s s | "()" | "(" s ")"\n', b"()"),
        ('start: e\ne: e "+" e | e "*" e | "-" e | "(" e ")" | "1"\n', b"1+1*-1+"),
        ('start: a\na: b c\nb: a | "x"\nc: a | "y"\n', b"xy"),
        ('start: "1" ("A"? "A"? "A"? "A"? "A"? "1")*\n', b"1AA"),
        ('start: stmt*\nstmt: "i" stmt | "i" stmt "e" stmt | "x"\n', b"iixex"),
        ('start: u\nu: "-" u | p\np: M | p "." M\nM: /[0-9]+(\\.[0-9]+)?/ | /[a-z]+/\n', b"--"),
    ],
    ids=["S S", "expressions", "mutual", "optionals", "dangling else", "right recursion before what may go on"],
)
def test_configurations_recur(grammar, unit):
    """After the same unit the configuration is the same again, so no states are added."""
    dfa = LazyDfa(build_network(grammar, {}, Budget()), Budget())
    state = dfa.advance(dfa.start, unit * 4)
    known = dfa.num_states
    assert dfa.advance(state, unit * 50) != -1
    assert dfa.num_states == known


def test_ambiguity_costs_states_of_the_network_not_stacks():
    """Both alternatives begin with the same call inside each parenthesis: 2^depth stacks, a handful of sets of stacks."""
    grammar = 'start: a\na: c | u "=" a\nc: u ("+" u)*\nu: "(" a ")" | "x"\n'
    dfa = LazyDfa(build_network(grammar, {}, Budget()), Budget())
    state = dfa.advance(dfa.start, b"(" * 500 + b"x")
    begins = dfa.machine.config_begin
    assert begins[state + 1] - begins[state] <= 8
    assert dfa.matches(b"(" * 500 + b"x" + b")" * 500)
