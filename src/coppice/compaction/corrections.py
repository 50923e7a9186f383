"""What a model's own token counts are to our estimates: a ratio for each model, learned from reported usage.

Kept in ``COPPICE_HOME/cache/token-corrections.json``, a cache of a few numbers that may be deleted at any time and says
nothing of what was said. Here: learning and keeping the ratios. Not here: the estimates they scale
(`coppice.compaction.estimate`), and anything of a session.
"""

from pathlib import Path
from typing import Annotated, Final

import msgspec

from coppice.errors import StorageFailure
from coppice.storage.directory import private_directory, replace_file

LOWEST: Final = 0.5
HIGHEST: Final = 2.0
"""Bounds of a sample and a ratio (ours): what lies outside is no tokenizer but a request that was not what we think."""

SAMPLE_WEIGHT: Final = 0.25
"""How much of a ratio its newest sample makes (ours): about eight replies until an old tokenizer is forgotten."""

LEAST_TOKENS: Final = 500
"""Tokens of a request, estimated and reported, from which it is a sample (ours): below, what the provider adds itself
is most of it."""

FIRST_REPLIES: Final = 8
ONE_IN: Final = 8
"""The first replies of a model in a process are all samples, then one in so many (ours): to estimate a whole request takes
10 ms and more."""

MOST_BYTES: Final = 1 << 20
"""A larger file is not ours and is not read."""


class Correction(msgspec.Struct, frozen=True):
    """What was learned of one model: reported tokens over estimated tokens, after so many samples."""

    ratio: Annotated[float, msgspec.Meta(ge=LOWEST, le=HIGHEST)]
    samples: Annotated[int, msgspec.Meta(ge=1)]


_decoder = msgspec.json.Decoder(dict[str, Correction])


class Corrections:
    """The ratios of all models, shared by every process of one `home` through one small file.

    Processes that learn at the same moment replace each other's file whole: one sample may be lost, nothing else.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / "cache" / "token-corrections.json"
        self._known = _read(self._path)
        self._replies: dict[str, int] = {}

    def wants_sample(self, model_name: str) -> bool:
        """Whether the reply that just came should be learned from; to be asked once for each reply of the model."""
        count = self._replies[model_name] = self._replies.get(model_name, 0) + 1
        return count <= FIRST_REPLIES or count % ONE_IN == 0

    def ratio(self, model_name: str) -> float:
        """What to multiply an estimate by for this model (``provider/id``); 1 while nothing is known of it."""
        known = self._known.get(model_name)
        return known.ratio if known else 1.0

    def learn(self, model_name: str, estimated: int, reported: int) -> bool:
        """Learn from one request: its whole size in tokens, as estimated (before any correction) and as reported.

        The value says whether it was kept. It is not where the request is too small to tell or nothing was reported;
        where the file cannot be written, what was learned holds in this object only.
        """
        if min(estimated, reported) < LEAST_TOKENS:
            return False
        self._known = self._known | _read(self._path)
        sample = min(max(reported / estimated, LOWEST), HIGHEST)
        self._known[model_name] = _learned(self._known.get(model_name), sample)
        try:
            private_directory(self._path.parent, self._home)
            replace_file(self._path, msgspec.json.encode(self._known))
        except StorageFailure:
            return False
        return True


def _learned(known: Correction | None, sample: float) -> Correction:
    """An exponential moving average that begins at the first sample."""
    if known is None:
        return Correction(sample, 1)
    return Correction(known.ratio + SAMPLE_WEIGHT * (sample - known.ratio), known.samples + 1)


def _read(path: Path) -> dict[str, Correction]:
    """What the file holds; nothing where there is none or it is damaged: the next sample writes it anew."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        return _decoder.decode(data) if len(data) <= MOST_BYTES else {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
