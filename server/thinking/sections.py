"""In: the end of a prompt, and the text that follows it; out: what of the text is thinking and what is answer. Knows no vLLM.

Reasoning parsers guess this from the text alone, each in its own way. Beside a constraint nothing has to be guessed: the prompt says
whether the output begins with thinking, and the constraint has the output end it with the first end marker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from guided.constraint import Constraint

Decode = Callable[[Sequence[int]], str]  # with special tokens


class Beginning(Enum):
    """What an output begins with."""

    ANSWER = "the answer"
    THINKING = "thinking: the prompt has opened it"
    EITHER = "thinking, if it begins with the start marker, or the answer"


@dataclass(frozen=True, slots=True)
class Sections:
    """The parts of one output.

    Attributes:
        start, end: the markers of thinking, such as <think> and </think>.
    """

    start: str
    end: str
    beginning: Beginning

    def constraint(self, answer: Constraint) -> Constraint:
        """The constraint of the whole output, where `answer` is that of its answer.

        Raises:
            ConstraintError: a marker is too long.
        """
        match self.beginning:
            case Beginning.ANSWER:
                return answer
            case Beginning.THINKING:
                return answer.after(self.end)
            case Beginning.EITHER:
                return answer.after(self.end, opening=self.start)

    def count(self, token_ids: Sequence[int], decode: Decode) -> int:
        """How many of an output's tokens are thinking, the markers not counted where they are one token each."""
        if self.beginning is Beginning.ANSWER:
            return 0
        opened = decode(token_ids[: len(self.start.encode())]).startswith(self.start)
        if self.beginning is Beginning.EITHER and not opened:
            return 0
        fewest, most = 0, len(token_ids)  # tokens up to the end marker, which is in the last of them
        ended = self.end in decode(token_ids)
        while ended and most - fewest > 1:
            middle = (fewest + most) // 2
            fewest, most = (fewest, middle) if self.end in decode(token_ids[:middle]) else (middle, most)
        return max(0, most - ended - opened)


def beginning_after(
    prompt: Sequence[int], start: str, end: str, *, decode: Decode, boundaries: frozenset[int], wanted: bool
) -> Beginning:
    """What the output to a prompt begins with.

    Markers in messages do not count: of the prompt only what follows its last boundary is read.

    Args:
        prompt: token ids.
        boundaries: the tokens that are no text, apart from the markers: what templates put between messages.
        wanted: thinking is not switched off, and the prompt has not begun the answer; asked where the prompt has no marker.
    """
    first = next((place + 1 for place in range(len(prompt) - 1, -1, -1) if prompt[place] in boundaries), 0)
    text = decode(prompt[first:])
    opened, closed = text.rfind(start), text.rfind(end)
    if opened == closed:  # there is neither
        return Beginning.EITHER if wanted else Beginning.ANSWER
    return Beginning.THINKING if opened > closed else Beginning.ANSWER


class Splitter:
    """Takes an output apart while it comes in."""

    def __init__(self, sections: Sections) -> None:
        self._sections = sections
        self._waiting = ""  # text that may be the beginning of a marker
        self._at_start = sections.beginning is not Beginning.ANSWER
        self.in_answer = sections.beginning is Beginning.ANSWER

    def feed(self, text: str) -> tuple[str, str]:
        """More of the output; what is known now of thinking and answer."""
        if self.in_answer:
            return "", text
        self._waiting += text
        if self._at_start and not self._begin():
            return "", ""
        if self.in_answer:
            return "", self._take(len(self._waiting))
        place = self._waiting.find(self._sections.end)
        if place < 0:
            return self._take(len(self._waiting) - _overlap(self._waiting, self._sections.end)), ""
        thinking = self._take(place)
        self._take(len(self._sections.end))
        self.in_answer = True
        return thinking, self._take(len(self._waiting))

    def finish(self) -> tuple[str, str]:
        """The rest, when the output is over: what looked like the beginning of a marker was none."""
        rest = self._take(len(self._waiting))
        is_thinking = not self.in_answer and not (self._at_start and self._sections.beginning is Beginning.EITHER)
        return (rest, "") if is_thinking else ("", rest)

    def _begin(self) -> bool:
        """Is it known what the output begins with? A prompt that has opened the thinking may see it opened again."""
        start = self._sections.start
        if len(self._waiting) < len(start) and start.startswith(self._waiting):
            return False
        self._at_start = False
        if self._waiting.startswith(start):
            self._take(len(start))
        else:
            self.in_answer = self._sections.beginning is Beginning.EITHER
        return True

    def _take(self, size: int) -> str:
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        return taken


def _overlap(text: str, marker: str) -> int:
    """Characters at the end of a text that may be the beginning of the marker."""
    return next(size for size in range(min(len(marker) - 1, len(text)), -1, -1) if text.endswith(marker[:size]))
