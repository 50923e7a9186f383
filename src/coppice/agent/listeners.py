"""Who hears events: in the order they came, each event to all of them. It keeps no event."""

from collections.abc import Callable
from typing import Generic, TypeVar

Event = TypeVar("Event")


class Listeners(Generic[Event]):
    """The listeners of one source of events."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: list[Callable[[Event], None]] = []

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Hear every event from now on; call what is returned to stop."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def tell(self, event: Event) -> None:
        """Tell every listener; one that raises ends it, which is its caller's to notice."""
        for listener in tuple(self._listeners):
            listener(event)
