"""Strings and numbers of one network; what nearly every schema asks for is laid out once and copied; knows no schema."""

from __future__ import annotations

from functools import lru_cache

from guided.automaton.encoding import SPELT_OTHERWISE, JsonStringEncoder
from guided.automaton.network import Network
from guided.json_schema.languages import Languages
from guided.json_schema.number_text import NumberText
from guided.json_schema.numbers import ANY_NUMBER, INTEGER
from guided.json_schema.string_text import StringText
from guided.json_schema.strings import ANY_STRING
from guided.limits import Budget

USUAL_NUMBERS = (ANY_NUMBER, INTEGER)


def leaves(network: Network, unicode_escapes: bool, languages: Languages) -> tuple[StringText, NumberText]:
    """The strings and numbers of a network, to which it adds the usual ones."""
    usual = _usual(unicode_escapes)
    first = network.include(usual[0].network) - usual[0].network.root
    strings, numbers = _texts(network, unicode_escapes, languages)
    strings.take_over(usual[0], first)
    numbers.take_over(usual[1], first)
    return strings, numbers


@lru_cache(maxsize=2)
def _usual(unicode_escapes: bool) -> tuple[StringText, NumberText]:
    strings, numbers = _texts(Network(), unicode_escapes, Languages(Budget()))
    strings.network.root = strings.quoted(ANY_STRING)
    strings.encoder.plan(SPELT_OTHERWISE)
    for shape in USUAL_NUMBERS:
        numbers.rule(shape)
    strings.network.build_all()
    return strings, numbers


def _texts(network: Network, unicode_escapes: bool, languages: Languages) -> tuple[StringText, NumberText]:
    return StringText(network, JsonStringEncoder(network, unicode_escapes), languages), NumberText(network)
