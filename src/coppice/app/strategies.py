"""Which strategy compacts: by its name, or by what the model's server offers."""

from coppice.compaction.inline import InlineStrategy
from coppice.compaction.remote import RemoteStrategy, offered_forms
from coppice.compaction.strategy import CompactionStrategy
from coppice.compaction.summary import SummaryStrategy
from coppice.errors import UsageError
from coppice.providers.base import ModelInfo

STRATEGIES: dict[str, CompactionStrategy] = {
    "summary": SummaryStrategy(),
    "codex-inline": InlineStrategy(),
    "codex-remote": RemoteStrategy("codex-remote"),
    "anthropic-server": RemoteStrategy("anthropic-server"),
}


def strategy_for(name: str, info: ModelInfo) -> CompactionStrategy:
    """The strategy of a name; ``auto`` is the server's own where it has one, else ``summary``.

    Raises:
        UsageError: there is none of this name.
    """
    if name == "auto":
        forms = offered_forms(info)
        name = "summary" if not forms else "anthropic-server" if forms[0] == "anthropic" else "codex-remote"
    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy {name!r}. Strategies: {', '.join(STRATEGIES)}, auto")
    return STRATEGIES[name]
