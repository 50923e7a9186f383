"""A provider's own compaction: what one form of it asks for, and what makes a reply good. The forms stand beside this."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coppice.errors import ProviderError
from coppice.format.messages import JsonObject, Usage
from coppice.providers.base import Compacted
from coppice.providers.pydantic_ai.exchange import Answer, Draft, Listener
from coppice.providers.pydantic_ai.prices import PriceTag

Fault = Callable[[Answer], str | None]
"""What is wrong with an answer, None when it is good."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form of compaction.

    ``ask`` turns an ordinary request into one for a compaction, given instructions where the form takes any;
    ``listener`` reads the reply, ``fault`` judges it, and ``usage`` reads what it cost.
    """

    ask: Callable[[str | None, Draft], Draft]
    listener: Listener
    fault: Fault
    usage: Callable[[JsonObject, PriceTag], Usage]
    takes_instructions: bool = False


def compacted(form: Form, answer: Answer, provider: str, price: PriceTag) -> Compacted:
    """A whole answer as what the caller wants.

    Raises:
        ProviderError: the answer is no compaction. The same request is not worth another try.
    """
    if (why := form.fault(answer)) is not None:
        raise ProviderError(f"{provider}: the compaction failed: {why}")
    return Compacted(answer.items, form.usage(answer.usage, price))


def checked_form(forms: Mapping[str, Form], name: str, provider: str, instructions: str | None) -> Form:
    """The form of this name.

    Raises:
        ProviderError: this API has no such form, or the form takes no instructions and got some.
    """
    form = forms.get(name)
    if form is None:
        raise ProviderError(f"{provider}: no compaction of the form {name!r} here, only {', '.join(forms) or 'none'}")
    if instructions and instructions.strip() and not form.takes_instructions:
        raise ProviderError(f"{provider}: a compaction of the form {name!r} takes no instructions")
    return form
