"""Near-copies of the sentences that are held out: what training must not see, though it is spelled
a little otherwise."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from transformer_lit.corpora.texts import TextPair


def words_in(text: str) -> list[str]:
    "Its words in lower case, without marks."
    return re.findall(r"\w+", text.casefold())


class NearCopies:
    """Tells whether a sentence repeats one of `held`: the same words, or for one of at least `long`
    words most of its runs of four.

    share: of the held sentence's runs that the other must hold."""

    def __init__(self, held: Iterable[str], share: float = 0.7, long: int = 8):
        self.same: defaultdict[str, list[int]] = defaultdict(
            list
        )  # words -> the held sentences of them, by their numbers
        self.holders: defaultdict[tuple[str, ...], list[int]] = defaultdict(
            list
        )  # a run -> the held sentences with it
        self.enough: dict[int, float] = {}
        for k, words in enumerate(map(words_in, held)):
            self.same[" ".join(words)].append(k)
            if len(words) >= long:
                runs = self.runs(words)
                for run in runs:
                    self.holders[run].append(k)
                self.enough[k] = share * len(runs)

    @staticmethod
    def runs(words: list[str]) -> set[tuple[str, ...]]:
        "All runs of four words."
        return set(zip(words, words[1:], words[2:], words[3:]))

    def of(self, sentence: str) -> set[int]:
        "The held sentences that this one repeats, by their numbers."
        words = words_in(sentence)
        found = Counter(k for run in self.runs(words) for k in self.holders.get(run, ()))
        return {
            *self.same.get(" ".join(words), ()),
            *(k for k, count in found.items() if count >= self.enough[k]),
        }

    def __call__(self, sentence: str) -> bool:
        return bool(self.of(sentence))


def apart_from(
    read: Callable[[], Iterable[TextPair]], near: Callable[[], NearCopies]
) -> Iterator[TextPair]:
    "The pairs of a source whose English is no near-copy of what is held out."
    copies = near()
    return (pair for pair in read() if not copies(pair[0]))
