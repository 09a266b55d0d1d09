"""The formats of Draft 2020-12 as automata over characters: a name goes in, the set of its strings comes out; knows no schema.

Each format is the grammar of its RFC as a regular expression (Python dialect, the whole string), composed from named pieces. Where
a format is not regular, or only decidable with tables, it is narrowed to a regular part of itself, so that what is generated
is always valid:
- hostname, email: no internationalised labels (`xn--...`), at most three labels or at most ten of 24 characters, which keeps
  the whole within 253; idn-* are the ASCII forms.
- time, date-time: leap seconds with offsets in quarters of an hour; at most 18 digits of a second's fraction (3 of a
  leap second's); years from 1.
- duration: at most 100 digits in a row.
- regex: groups nested at most three deep, no named groups and no back references.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from guided.automaton.char_dfa import CharDfa
from guided.limits import Budget, Limits
from guided.regex import pattern_dfa

_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_FRACTION = r"(?:\.[0-9]{1,18})?"
_HOUR = "(?:[01][0-9]|2[0-3])"
_OFFSET = rf"(?:[Zz]|[+-]{_HOUR}:[0-5][0-9])"


def _leap_seconds() -> str:
    """The times of day at which it is 23:59:60 in UTC, for offsets in quarters of an hour (RFC 3339, section 5.7)."""
    fraction = r"(?:\.[0-9]{1,3})?"
    by_offset = [f"23:59:60{fraction}[Zz]"]
    for hour in range(24):
        for minute in (14, 29, 44, 59):
            ahead, behind = (hour * 60 + minute + 1) % 1440, 1439 - (hour * 60 + minute)
            offsets = rf"\+{ahead // 60:02}:{ahead % 60:02}|-{behind // 60:02}:{behind % 60:02}"
            by_offset.append(f"{hour:02}:{minute:02}:60{fraction}(?:{offsets})")
    return "|".join(by_offset)


_TIME = rf"(?:{_HOUR}:[0-5][0-9]:[0-5][0-9]{_FRACTION}{_OFFSET}|{_leap_seconds()})"

_RUN = "[0-9]{1,100}"
_CLOCK = f"T(?:{_RUN}H(?:{_RUN}M(?:{_RUN}S)?)?|{_RUN}M(?:{_RUN}S)?|{_RUN}S)"
_CALENDAR = f"(?:{_RUN}D|{_RUN}M(?:{_RUN}D)?|{_RUN}Y(?:{_RUN}M(?:{_RUN}D)?)?)"
_DURATION = f"P(?:{_RUN}W|{_CALENDAR}(?:{_CLOCK})?|{_CLOCK})"

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H16 = "[0-9A-Fa-f]{1,4}"
_LS32 = f"(?:{_H16}:{_H16}|{_IPV4})"


def _ipv6() -> str:
    """RFC 3986, appendix A."""
    forms = [f"(?:{_H16}:){{6}}{_LS32}", f"::(?:{_H16}:){{5}}{_LS32}"]
    for before in range(5):
        left = f"(?:(?:{_H16}:){{0,{before}}}{_H16})?"
        forms.append(f"{left}::(?:{_H16}:){{{4 - before}}}{_LS32}")
    forms.append(f"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}")
    forms.append(f"(?:(?:{_H16}:){{0,6}}{_H16})?::")
    return "(?:" + "|".join(forms) + ")"


_IPV6 = _ipv6()

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_SHORT_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,22}[A-Za-z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL}){{0,2}}|{_SHORT_LABEL}(?:\.{_SHORT_LABEL}){{3,9}})"
_RESERVED_LABEL = r"(?:.*\.)?..--.*"  # IDNA 2008 reserves these

_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_LITERAL = rf"\[(?:{_IPV4}|IPv6:{_IPV6})\]"
_EMAIL = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_HOST}|{_LITERAL})"

_UCS = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U0001fffd\U00020000-\U0002fffd\U00030000-\U0003fffd"
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_PERCENT = "%[0-9A-Fa-f]{2}"


def _uri(more: str, private: str, relative: bool) -> str:
    """A URI or a reference (RFC 3986, appendix A), or an IRI (RFC 3987) with more characters."""
    plain = f"A-Za-z0-9._~{more}!$&'()*+,;=-"
    segment = rf"(?:[:@{plain}]|{_PERCENT})"
    name = rf"(?:[{plain}]|{_PERCENT})*"
    host = rf"(?:\[(?:{_IPV6}|[vV][0-9A-Fa-f]+\.[:{plain}]+)\]|{name})"
    authority = rf"(?:(?:[:{plain}]|{_PERCENT})*@)?{host}(?::[0-9]*)?"
    tail = rf"(?:\?(?:[:@/?{private}{plain}]|{_PERCENT})*)?(?:#(?:[:@/?{plain}]|{_PERCENT})*)?"
    absolute_path = rf"/(?:{segment}+(?:/{segment}*)*)?"
    below_authority = rf"//{authority}(?:/{segment}*)*"
    rooted = rf"{below_authority}|{absolute_path}"
    whole = rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{rooted}|{segment}+(?:/{segment}*)*|){tail}"
    if not relative:
        return whole
    no_colon = rf"(?:[@{plain}]|{_PERCENT})"
    return rf"(?:{whole}|(?:{rooted}|{no_colon}+(?:/{segment}*)*|){tail})"


def _uri_template() -> str:
    """RFC 6570, section 2."""
    variable = f"(?:[A-Za-z0-9_]|{_PERCENT})"
    spec = rf"{variable}(?:\.?{variable})*(?:\*|:[1-9][0-9]{{0,3}})?"
    expression = rf"\{{[+#./;?&=,!@|]?{spec}(?:,{spec})*\}}"
    literal = rf"(?:[!#$&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_UCS}{_PRIVATE}]|{_PERCENT})"
    return rf"(?:{literal}|{expression})*"


def _regex() -> str:
    """Regular expressions that ECMA-262 accepts, groups nested three deep at most."""
    hexadecimal = "[0-9A-Fa-f]"
    escape = rf"\\(?:[dDwWsStnrvf0^$\\.*+?()\[\]{{}}|/]|c[A-Za-z]|x{hexadecimal}{{2}}|u{hexadecimal}{{4}})"
    member = rf"(?:[^\\\[\]&~|-]|{escape})"
    char_class = rf"\[\^?{member}*\]"
    atom = rf"(?:[^\\^$.*+?()\[\]{{}}|]|\.|{escape}|{char_class})"
    quantifier = r"(?:(?:[*+?]|\{[0-9]\}|\{[0-9],\}|\{[0-4],[4-9]\})\??)?"
    assertion = r"(?:\^|\$|\\[bB])"
    flat = rf"{atom}{quantifier}|{assertion}|\|"
    body = f"(?:{flat})*"
    for _ in range(3):
        body = rf"(?:{flat}|\((?:\?:)?{body}\){quantifier}|\(\?<?[=!]{body}\))*"
    return body


_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_UUID = "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"

_PATTERNS: dict[str, Callable[[], str]] = {
    "date": lambda: _DATE,
    "time": lambda: _TIME,
    "date-time": lambda: f"{_DATE}[Tt]{_TIME}",
    "duration": lambda: _DURATION,
    "email": lambda: _EMAIL,
    "hostname": lambda: _HOST,
    "ipv4": lambda: _IPV4,
    "ipv6": lambda: _IPV6,
    "uri": lambda: _uri("", "", relative=False),
    "uri-reference": lambda: _uri("", "", relative=True),
    "iri": lambda: _uri(_UCS, _PRIVATE, relative=False),
    "iri-reference": lambda: _uri(_UCS, _PRIVATE, relative=True),
    "uri-template": _uri_template,
    "uuid": lambda: _UUID,
    "json-pointer": lambda: _POINTER,
    "relative-json-pointer": lambda: f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
    "regex": _regex,
}
_SAME_AS = {"idn-email": "email", "idn-hostname": "hostname"}

KNOWN = frozenset([*_PATTERNS, *_SAME_AS])


@cache
def format_dfa(name: str) -> CharDfa:
    """The strings of a known format."""
    name = _SAME_AS.get(name, name)
    budget = Budget(
        Limits(seconds=600)
    )  # the standard's formats, the same for all: nobody's fault where the machine is slow
    language = pattern_dfa(_PATTERNS[name](), flags="s", budget=budget)
    if name in ("hostname", "email"):
        language = language.difference(pattern_dfa(f"(?:.*@)?{_RESERVED_LABEL}", flags="s", budget=budget), budget)
    if name in ("date", "date-time"):
        language = language.difference(pattern_dfa("0000.*", flags="s", budget=budget), budget)
    return language.minimise(budget)
