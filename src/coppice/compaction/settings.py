"""What can be set about compaction, and how the numbers are fitted to a model's window. Pure values."""

from typing import Literal

import msgspec

StrategyName = Literal["summary", "codex-inline", "codex-remote", "anthropic-server", "auto"]
TriggerName = Literal["pi", "codex"]
Scope = Literal["total", "body_after_prefix"]

RESERVE_TOKENS = 16_384
KEEP_RECENT_TOKENS = 20_000
"""Pi's defaults (its docs/compaction.md): tokens left free for the reply, and tokens of recent entries kept."""

EFFECTIVE_PERCENT = 95
"""The part of the raw window that Codex counts as usable, in percent."""


class ModelLimits(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Settings for one model, by its name ``provider/id``; what is None falls back to the general setting."""

    context_window: int | None = None
    auto_limit: int | None = None
    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None


class CompactionSettings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Compaction settings. All numbers are tokens.

    ``auto``: compact by itself; off means off, on overflow too. ``strategy`` and ``trigger`` are independent.
    ``auto_limit`` is Codex's configured limit, ``scope`` what it is compared with. ``inline_fallback`` allows
    codex-inline where a provider turns out not to offer its own compaction.
    """

    auto: bool = True
    strategy: StrategyName = "summary"
    trigger: TriggerName = "pi"
    reserve_tokens: int = RESERVE_TOKENS
    keep_recent_tokens: int = KEEP_RECENT_TOKENS
    auto_limit: int | None = None
    scope: Scope = "total"
    inline_user_tokens: int = 20_000
    remote_user_tokens: int = 64_000
    inline_fallback: bool = False
    remote: tuple[str, ...] | None = None
    models: dict[str, ModelLimits] = {}


class Limits(msgspec.Struct, frozen=True):
    """The numbers in force for one model. ``window`` None: unknown. ``reserve`` and ``keep`` fit small windows too."""

    window: int | None
    reserve: int
    keep: int
    auto_limit: int | None
    trigger: TriggerName
    scope: Scope

    @property
    def effective_window(self) -> int | None:
        """The usable part of the window."""
        return None if self.window is None else self.window * EFFECTIVE_PERCENT // 100

    def user_tokens(self, wanted: int) -> int:
        """Tokens of user messages that a compaction keeps word for word: `wanted`, at most half of what the reserve
        leaves, so that a small window is not full again at once (ours; Codex's models have windows above 200k)."""
        return wanted if self.window is None else min(wanted, (self.window - self.reserve) // 2)


def limits_for(settings: CompactionSettings, model_name: str, window: int | None) -> Limits:
    """The numbers for a model. In a window that is small for the reserve, a quarter of it is the reserve, and at most
    half of the rest is kept."""
    own = settings.models.get(model_name, ModelLimits())
    size = own.context_window or window
    reserve = settings.reserve_tokens if own.reserve_tokens is None else own.reserve_tokens
    keep = settings.keep_recent_tokens if own.keep_recent_tokens is None else own.keep_recent_tokens
    if size is not None:
        reserve = min(reserve, size // 4)
        keep = min(keep, (size - reserve) // 2)
    limit = settings.auto_limit if own.auto_limit is None else own.auto_limit
    return Limits(size, reserve, keep, limit, settings.trigger, settings.scope)
