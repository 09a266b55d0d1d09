"""Random patterns from a grammar of patterns, and texts that come close to matching them."""

import signal

import hypothesis.strategies as st
from hypothesis import assume

_PATIENCE_SECONDS = 2.0  # of processor time

# Letters with a case, one without, a word character outside ASCII, what `\s` and `.` care about, and the special cases of case.
ALPHABET = "aAbB_1 \n-éKkſsİiıß😀"

_LITERALS = st.sampled_from([*"aAbB_1 -éKks😀", r"\n", r"\.", r"\x61", "é", r"\N{LATIN SMALL LETTER A}", r"\-"])
_CATEGORIES = st.sampled_from([r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"])
_CLASSES = st.builds(
    lambda negated, items: f"[{negated}{''.join(items)}]",
    st.sampled_from(["", "", "^"]),
    st.lists(
        st.sampled_from(["a", "A-Z", "a-c", "é", "K", "ſ", "ß", "_", r"\d", r"\w", r"\W", r"\s", r"\n", "😀", "1-9"]),
        min_size=1,
        max_size=3,
    ),
)
_ANCHORS = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\Z"])
_ATOMS = st.one_of(_LITERALS, _LITERALS, st.just("."), _CATEGORIES, _CLASSES, _ANCHORS)
_QUANTIFIERS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "*?", "+?", "??"])
_GROUPS = st.sampled_from(
    [
        "({})",
        "(?:{})",
        "(?P<n>{})",
        "(?i:{})",
        "(?s:{})",
        "(?m:{})",
        "(?a:{})",
        "(?-i:{})",
        "(?#c)(?:{})",
        "(?x: {} # c\n)",
    ]
)
_LOOKS = st.sampled_from(["(?={})", "(?!{})", "(?<={})", "(?<!{})"])


def _larger(inner):
    group = st.builds(lambda form, body: form.replace("{}", body), _GROUPS, inner)
    look = st.builds(lambda form, body: form.replace("{}", body), _LOOKS, inner)
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(st.one_of(inner, st.just("")), min_size=2, max_size=3).map(lambda b: f"(?:{'|'.join(b)})"),
        st.builds(lambda body, q: f"(?:{body}){q}", inner, _QUANTIFIERS),
        group,
        look,
    )


_FLAGS = st.sampled_from(["", "", "", "(?i)", "(?m)", "(?s)", "(?a)", "(?ai)", "(?im)", "(?x)"])
PATTERNS = st.builds(lambda flags, body: flags + body, _FLAGS, st.recursive(_ATOMS, _larger, max_leaves=8))
TEXTS = st.text(alphabet=st.sampled_from(ALPHABET), max_size=5)


class _Forever(Exception):
    pass


def patient(match):
    """A function of `re` that discards the example which would take it forever: it backtracks, and random patterns nest their stars."""

    def give_up(_number, _frame):
        raise _Forever

    def says(*args):
        before = signal.signal(signal.SIGVTALRM, give_up)  # the other alarm is that of the suite's own timeout
        signal.setitimer(signal.ITIMER_VIRTUAL, _PATIENCE_SECONDS)
        try:
            return match(*args)
        except _Forever:
            assume(False)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    return says
