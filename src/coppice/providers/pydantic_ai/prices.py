"""What tokens cost and how large context windows are, from the data inside the genai-prices package.

Never from the network. What the data does not know costs 0 and has no window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot
from msgspec import structs
from pydantic_ai.usage import RequestUsage

from coppice.format.messages import NO_USAGE, Cost, JsonValue, Usage


@dataclass(frozen=True, slots=True)
class PriceTag:
    """Where the data knows a model: under a provider's id, or under the address of its server."""

    model: str
    provider_id: str | None = None
    base_url: str | None = None

    @property
    def context_window(self) -> int | None:
        """Tokens."""
        try:
            _, model = get_snapshot().find_provider_model(self.model, None, self.provider_id, self.base_url)
        except LookupError:
            return None
        return model.context_window

    def input_price(self, total: int, read: int, written: int, written_1h: int) -> Decimal:
        """US dollars for ``total`` input tokens, of which so many were read from and written to the cache."""
        usage = PricedUsage(
            input_tokens=total, cache_read_tokens=read, cache_write_tokens=written, cache_write_1h_tokens=written_1h
        )
        return self._price(usage)

    def output_price(self, total: int, output: int) -> Decimal:
        """US dollars for ``output`` tokens after ``total`` input tokens (a price may depend on how many those were)."""
        return self._price(PricedUsage(input_tokens=total, output_tokens=output)) - self.input_price(total, 0, 0, 0)

    def _price(self, usage: PricedUsage) -> Decimal:
        if self.provider_id is not None:
            return calc_price(usage, self.model, provider_id=self.provider_id).total_price
        return calc_price(usage, self.model, provider_api_url=self.base_url).total_price


def usage_of(usage: RequestUsage, tag: PriceTag) -> Usage:
    """pydantic-ai's usage as ours: its ``input_tokens`` counts what was cached, our ``input`` does not.

    It also counts what a compaction inside the request used. That was paid for, so it is in the cost; it was never in
    the context, so it is not in the tokens.
    """
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    plain = max(usage.input_tokens - read - written, 0)
    paid = priced(Usage(plain, usage.output_tokens, read, written), tag, usage.cache_write_1h_tokens)
    inside = compaction_tokens(usage.details)
    if inside == NO_USAGE:
        return paid
    return structs.replace(
        totalled(
            Usage(
                max(paid.input - inside.input, 0),
                max(paid.output - inside.output, 0),
                max(paid.cache_read - inside.cache_read, 0),
                max(paid.cache_write - inside.cache_write, 0),
            )
        ),
        cost=paid.cost,
    )


def compaction_tokens(details: dict[str, int]) -> Usage:
    """The tokens of compactions inside a request, as pydantic-ai names them."""
    return Usage(
        count_in(details, "compaction_input_tokens"),
        count_in(details, "compaction_output_tokens"),
        count_in(details, "compaction_cache_read_input_tokens"),
        count_in(details, "compaction_cache_creation_input_tokens"),
    )


def priced(tokens: Usage, tag: PriceTag, written_1h: int = 0) -> Usage:
    """The tokens with their total and cost."""
    return structs.replace(totalled(tokens), cost=cost_of(tag, tokens, written_1h))


def totalled(tokens: Usage) -> Usage:
    """The tokens with their total."""
    total = tokens.input + tokens.output + tokens.cache_read + tokens.cache_write
    return structs.replace(tokens, total_tokens=total)


def joined(usages: Sequence[Usage]) -> Usage:
    """The sum of usages, cost included."""
    costs = [usage.cost for usage in usages]
    return Usage(
        sum(usage.input for usage in usages),
        sum(usage.output for usage in usages),
        sum(usage.cache_read for usage in usages),
        sum(usage.cache_write for usage in usages),
        sum(usage.total_tokens for usage in usages),
        Cost(
            sum(cost.input for cost in costs),
            sum(cost.output for cost in costs),
            sum(cost.cache_read for cost in costs),
            sum(cost.cache_write for cost in costs),
            sum(cost.total for cost in costs),
        ),
    )


def count_in(fields: Mapping[str, JsonValue], name: str) -> int:
    """A field that is a number of tokens; 0 for any other."""
    value = fields.get(name)
    return value if type(value) is int and value > 0 else 0


def cost_of(tag: PriceTag, tokens: Usage, written_1h: int) -> Cost:
    """The cost by kind: the data only gives sums, so each kind is the difference it makes to the same total."""
    total = tokens.input + tokens.cache_read + tokens.cache_write
    try:
        uncached = tag.input_price(total, 0, 0, 0)
        with_reads = tag.input_price(total, tokens.cache_read, 0, 0)
        everything = tag.input_price(total, tokens.cache_read, tokens.cache_write, written_1h)
        output = tag.output_price(total, tokens.output)
    except (LookupError, ValueError):
        return Cost()
    if total == 0:
        return Cost(output=float(output), total=float(output))
    each = uncached / total
    read = with_reads - each * (tokens.input + tokens.cache_write)
    written = everything - read - each * tokens.input
    return Cost(
        input=float(each * tokens.input),
        output=float(output),
        cache_read=float(read),
        cache_write=float(written),
        total=float(everything + output),
    )
