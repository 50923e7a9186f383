"""What tokens cost and how large context windows are, from the data inside the genai-prices package.

Never from the network. What the data does not know costs 0 and has no window.
"""

from dataclasses import dataclass
from decimal import Decimal

from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot
from pydantic_ai.usage import RequestUsage

from coppice.format.messages import Cost, Usage


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
    """pydantic-ai's usage as ours: its ``input_tokens`` counts what was cached, our ``input`` does not."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    plain = max(usage.input_tokens - read - written, 0)
    output = usage.output_tokens
    return Usage(
        input=plain,
        output=output,
        cache_read=read,
        cache_write=written,
        total_tokens=plain + output + read + written,
        cost=cost_of(tag, Usage(plain, output, read, written), usage.cache_write_1h_tokens),
    )


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
