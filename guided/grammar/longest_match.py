"""Rule automata in, automata out whose terminals end where `re.match` would end them, whatever follows; knows no bytes.

A terminal leaves a *watch* behind (see `terminal_automaton`): the text that follows must not let it end elsewhere. A watch is a
regular condition on the text across rule borders, so the result is the intersection of a context-free with a regular language
(Bar-Hillel, Perles and Shamir, 1961), with three changes that keep it small:

- A variant of a rule is named by the watch that it is entered with. Which watch is left when it ends is not guessed in
  advance: the rule ends with an *exit*, and the caller goes on according to it.
- A variant is also named by the exits that its caller can use, so no state is left from which no string is complete.
- A watch is dropped where nothing that may come next could disturb it: in most grammars everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.grammar.follow import Followers
from guided.grammar.rule_automaton import RuleAutomaton
from guided.grammar.watches import NO_WATCH, TerminalVariants
from guided.limits import Budget

State = tuple[int, int, bool]  # (state of the rule's automaton, watch, may ignored terminals be read first?)
Symbol = tuple[int, int]  # (terminal >= 0 or ~rule, watch on entry)
DemandKey = tuple[int, int, frozenset[int]]  # (rule, watch on entry, exits that the caller can use)


@dataclass(slots=True)
class WatchedRule:
    """One variant of a rule.

    Attributes:
        arcs: per state, (symbol, exit of the symbol -> next state); the symbol is a terminal variant or a key of another rule.
        empty: per state, the states reached unread.
        exit: per state, the watch that is left if the rule ends here, or None.
    """

    arcs: list[list[tuple[Symbol | DemandKey, dict[int, int]]]] = field(default_factory=list)
    empty: list[list[int]] = field(default_factory=list)
    exit: list[int | None] = field(default_factory=list)


def watched_rules(
    rules: dict[int, RuleAutomaton],
    start: int,
    following: Followers,
    ignore: list[int],
    terminals: TerminalVariants,
    budget: Budget,
) -> tuple[DemandKey | None, dict[DemandKey, WatchedRule]]:
    """(the variant that the output matches, all variants that it needs); None if there is no such string.

    The start variant's state 0 reads ignored terminals first.

    Raises:
        LimitExceeded: too many states.
    """
    product = _Product(rules, following, ignore, terminals, budget)
    product.explore(start)
    return _Demands(product, budget).collect(start)


class _Variant:
    """A rule entered with a watch: the states that are reached, before it is known which are of use."""

    def __init__(self) -> None:
        self.states: dict[State, None] = {}
        self.exits: set[int] = set()
        self.moves: dict[State, list[tuple[Symbol | None, int, State]]] = {}  # state -> (symbol, its exit, next state)


class _Product:
    """Forward exploration by tabulation: when a variant gets a new exit, all its calls so far go on from there."""

    def __init__(
        self,
        rules: dict[int, RuleAutomaton],
        following: Followers,
        ignore: list[int],
        terminals: TerminalVariants,
        budget: Budget,
    ) -> None:
        self.rules = rules
        self._following = following
        self._ignored = sum(1 << terminal for terminal in ignore)
        self.terminals = terminals
        self.variants: dict[Symbol, _Variant] = {}
        self.begin: dict[Symbol, State] = {}
        self._ignore = ignore
        self._budget = budget
        self._worklist: list[tuple[Symbol, State]] = []
        self._calls: dict[Symbol, list[tuple[Symbol, State, int]]] = {}  # called variant -> (caller, state, target)

    def explore(self, start: int) -> None:
        self._variant((~start, NO_WATCH), bool(self._ignore))
        count = 0
        while self._worklist:
            self._follow(*self._worklist.pop())
            count += 1
            if not count & 255:
                self._budget.check("what may follow the terminals of the grammar", states=count)

    def _variant(self, key: Symbol, ignoring: bool = False) -> _Variant:
        if key not in self.variants:
            self.variants[key] = _Variant()
            self.begin[key] = (0, key[1], ignoring)
            self._reach(key, self.begin[key])
        return self.variants[key]

    def _reach(self, key: Symbol, state: State) -> None:
        variant = self.variants[key]
        if state not in variant.states:
            variant.states[state] = None
            variant.moves[state] = []
            self._worklist.append((key, state))

    def _move(self, key: Symbol, state: State, symbol: Symbol | None, exit: int, target: State) -> None:
        position, watch, ignoring = target
        if watch != NO_WATCH:
            mask = self._following.next_at[~key[0]][position] | self._ignored
            target = (position, self.terminals.kept(watch, mask), ignoring)
        self.variants[key].moves[state].append((symbol, exit, target))
        self._reach(key, target)

    def _follow(self, key: Symbol, state: State) -> None:
        """All moves of one state of a variant."""
        position, watch, ignoring = state
        automaton = self.rules[~key[0]]
        if ignoring:
            self._move(key, state, None, NO_WATCH, (position, watch, False))
            for terminal in self._ignore:
                for exit in self.terminals.exits(terminal, watch):
                    self._move(key, state, (terminal, watch), exit, (position, exit, True))
            return
        if automaton.final[position]:
            self._end(key, self.exit_of(~key[0], watch))
        for symbol, target in automaton.arcs[position]:
            if symbol >= 0:
                for exit in self.terminals.exits(symbol, watch):
                    self._move(key, state, (symbol, watch), exit, (target, exit, bool(self._ignore)))
            else:
                called = (symbol, self.terminals.kept(watch, self._following.first[~symbol]))
                self._calls.setdefault(called, []).append((key, state, target))
                for exit in list(self._variant(called).exits):
                    self._move(key, state, called, exit, (target, exit, False))

    def exit_of(self, rule: int, watch: int) -> int:
        """The exit of a rule that ends with a watch: the watch, where what follows the rule anywhere could disturb it."""
        return self.terminals.kept(watch, self._following.after_rule[rule] | self._ignored)

    def _end(self, key: Symbol, exit: int) -> None:
        if exit not in self.variants[key].exits:
            self.variants[key].exits.add(exit)
            for caller, state, target in self._calls.get(key, ()):
                self._move(caller, state, key, exit, (target, exit, False))


class _Demands:
    """Backward: which states of a variant lead to an exit that the caller can use."""

    def __init__(self, product: _Product, budget: Budget) -> None:
        self._product = product
        self._budget = budget
        self._found: dict[DemandKey, WatchedRule] = {}
        self._waiting: list[DemandKey] = []

    def collect(self, start: int) -> tuple[DemandKey | None, dict[DemandKey, WatchedRule]]:
        key = (~start, NO_WATCH)
        exits = {exit for exit in self._product.variants[key].exits if not self._product.terminals.is_open(exit)}
        if not exits:
            return None, {}
        root = (start, NO_WATCH, frozenset(exits))
        self._waiting.append(root)
        self._found[root] = WatchedRule()
        while self._waiting:
            demand = self._waiting.pop()
            self._build(demand, self._found[demand])
            self._budget.check("what may follow the terminals of the grammar", states=len(self._found))
        return root, self._found

    def _build(self, demand: DemandKey, built: WatchedRule) -> None:
        rule, watch, wanted = demand
        variant = self._product.variants[~rule, watch]
        alive = self._alive(rule, variant, wanted)
        order = [state for state in variant.states if state in alive]  # the first one is where it begins
        numbers = {state: number for number, state in enumerate(order)}
        final = self._product.rules[rule].final
        for state in order:
            arcs: dict[tuple[Symbol, int], dict[int, int]] = {}
            empty = []
            for symbol, exit, target in variant.moves[state]:
                if target not in alive:
                    continue
                if symbol is None:
                    empty.append(numbers[target])
                else:
                    # Arcs of one symbol to different targets stay apart; the exits of one arc belong together.
                    arcs.setdefault((symbol, target[0]), {})[exit] = numbers[target]
            built.arcs.append([self._demanded(symbol, exits) for (symbol, _), exits in arcs.items()])
            built.empty.append(empty)
            position, left, ignoring = state
            exit = self._product.exit_of(rule, left)
            built.exit.append(exit if not ignoring and final[position] and exit in wanted else None)

    def _demanded(self, symbol: Symbol, exits: dict[int, int]) -> tuple[Symbol | DemandKey, dict[int, int]]:
        if symbol[0] >= 0:
            return symbol, exits
        key = (~symbol[0], symbol[1], frozenset(exits))
        if key not in self._found:
            self._found[key] = WatchedRule()
            self._waiting.append(key)
        return key, exits

    def _alive(self, rule: int, variant: _Variant, wanted: frozenset[int]) -> set[State]:
        sources: dict[State, list[State]] = {}
        for state, moves in variant.moves.items():
            for _, _, target in moves:
                sources.setdefault(target, []).append(state)
        final = self._product.rules[rule].final
        alive: set[State] = {
            (position, watch, ignoring)
            for position, watch, ignoring in variant.states
            if not ignoring and final[position] and self._product.exit_of(rule, watch) in wanted
        }
        worklist = list(alive)
        while worklist:
            for source in sources.get(worklist.pop(), ()):
                if source not in alive:
                    alive.add(source)
                    worklist.append(source)
        return alive
