"""Fit the weights of the token estimate against o200k_base: ``python -m benchmarks.fit_tokens``.

Prints the table WEIGHTS for ``coppice/compaction/estimate.py`` and how well it does on both halves of the texts. It
needs more packages than coppice's own development, in an environment of their own, without their dependencies:

    pip install --no-deps pretix==2026.8.0 weblate==5.14.3 wagtail==8.0.1 sphinx==9.0.4

Least squares with weights that are never negative (so that the estimate never falls when text is appended), by
coordinate descent, in plain Python. A chunk counts by the square of its error over its size; a kind counts the same
however much text it has, and so does each source within a kind.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from benchmarks.token_error import ErrorOf, chunks_of, error_of, vocabulary
from benchmarks.token_texts import FITTED_ONLY, further_texts, projects, texts
from coppice.compaction.characters import measures

CHUNKS_A_SOURCE: Final = 60
"""The most chunks taken of one source, evenly spread."""

DAMPING: Final = 1e-3
"""How much a weight's square costs, as a share of what its measure explains: keeps measures that run together stable."""

LEAST_SHARE: Final = 2e-4
"""A measure that gives less than this share of all tokens is left out, and the others are fitted once more."""

ROUNDS: Final = 1500


@dataclass(frozen=True, slots=True)
class Row:
    """One chunk to fit: its measures, its tokens and how much it counts."""

    amounts: dict[str, float]
    tokens: int
    importance: float


def rows() -> list[Row]:
    """The chunks of the half that is fitted."""
    encode = vocabulary()
    kinds = {kind: (1.0, parts) for kind, parts in texts("fit").items()}
    kinds |= {kind: (0.25, parts) for kind, parts in further_texts("fit").items()}
    found: list[Row] = []
    for importance, parts in kinds.values():
        for part in parts:
            all_chunks = chunks_of(part, encode)
            step = -(-len(all_chunks) // CHUNKS_A_SOURCE)
            taken = list(islice(all_chunks, 0, None, step))
            share = importance / len(parts) / max(len(taken), 1)
            found += [Row(measures(chunk.text), chunk.tokens, share) for chunk in taken]
    return found


def fitted(wanted: Sequence[Row], names: Sequence[str]) -> dict[str, float]:
    """The weights of the named measures."""
    square = [[0.0] * len(names) for _ in names]
    target = [0.0] * len(names)
    place = {name: at for at, name in enumerate(names)}
    for row in wanted:
        scale = row.importance / row.tokens**1.5  # between the absolute and the relative error
        here = [(place[name], amount) for name, amount in row.amounts.items() if amount and name in place]
        for at, amount in here:
            target[at] += scale * amount * row.tokens
            line = square[at]
            for other, more in here:
                line[other] += scale * amount * more
    return dict(zip(names, _descended(square, target), strict=True))


def _descended(square: list[list[float]], target: list[float]) -> list[float]:
    """The x >= 0 that minimises x·square·x / 2 - target·x, damped."""
    weights = [0.0] * len(target)
    slope = [-value for value in target]
    for at, line in enumerate(square):
        line[at] *= 1 + DAMPING
    for _ in range(ROUNDS):
        moved = 0.0
        for at, line in enumerate(square):
            if line[at] <= 0:
                continue
            step = max(0.0, weights[at] - slope[at] / line[at]) - weights[at]
            if step:
                weights[at] += step
                moved = max(moved, abs(step))
                slope = [value + step * more for value, more in zip(slope, line, strict=True)]
        if moved < 1e-4:
            break
    return weights


def pruned(wanted: Sequence[Row], weights: dict[str, float]) -> list[str]:
    """The measures that give at least LEAST_SHARE of some kind's importance-weighted tokens."""
    share = dict.fromkeys(weights, 0.0)
    for row in wanted:
        for name, amount in row.amounts.items():
            if name in share:
                share[name] += row.importance * weights[name] * amount / row.tokens
    whole = sum(row.importance for row in wanted)
    return [name for name, value in share.items() if value / whole >= LEAST_SHARE]


def main() -> int:
    """Fit, and print the weights and the errors; the value is the exit code."""
    missing = sorted(set(FITTED_ONLY) - set(projects("fit")))
    if missing:
        print(f"not installed: {', '.join(missing)} (see this file's beginning)", file=sys.stderr)
        return 1
    wanted = rows()
    names = list(dict.fromkeys(name for row in wanted for name in row.amounts))
    weights = fitted(wanted, names)
    weights = fitted(wanted, pruned(wanted, weights))
    kept = {name: round(weight, 3) for name, weight in weights.items() if weight >= 0.0005}
    for name in names:
        if name in kept:
            print(f'    "{name}": {kept[name]},')
    for half in ("fit", "test"):
        for kind, parts in {**texts(half), **further_texts(half)}.items():
            print(half, _told(kind, error_of(parts, lambda text: _estimate(kept, text))), file=sys.stderr)
    return 0


def _estimate(weights: dict[str, float], text: str) -> float:
    return sum(weights.get(name, 0.0) * amount for name, amount in measures(text).items())


def _told(kind: str, error: ErrorOf) -> str:
    return f"{kind:20} {error.chunks:4} chunks, total {error.total:+6.1f} %, chunk {error.chunk:5.1f} %"


if __name__ == "__main__":
    sys.exit(main())
