"""Reports of several test sets at once: translate each, score it as chapter 19 does, keep what may
be shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from transformer_lit.evaluation import rarest, report, word_counts


def all_reports(
    translate: Callable[[list[str]], list[str]],
    sets: Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]]]],
    training: Sequence[tuple[str, str]],
    own: Iterable[str] = (),
    key: Callable[[str], str] = str.casefold,
) -> dict[str, dict]:
    """Name of a set -> its `report`. sets: name -> (sources, references).

    training: pairs of sentences. `own` names the sets whose outputs are kept, with whether training
    had seen each sentence; `key` is what two spellings of one English sentence share."""
    known = word_counts(source for source, _ in training)
    shown, reports, kept = {key(source) for source, _ in training}, {}, set(own)
    for name, (sources, references) in sets.items():
        said = translate(list(sources))
        reports[name] = report(
            said, references, sources, rarest(sources, known), [french for _, french in training]
        )
        if name in kept:
            reports[name]["hypotheses"] = list(said)
            reports[name]["seen"] = [key(s) in shown for s in sources]
    return reports
