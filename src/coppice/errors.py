"""Every error coppice raises on purpose: one root, one class per decision a caller can take.

Messages say what happened, where (``path:line`` when there is a file) and what to do next.
Nothing here knows how an error is shown.
"""

from dataclasses import dataclass


class CoppiceError(Exception):
    """Root of all errors raised on purpose. Its text is fit to be shown to a user as one line."""


# --- session files -----------------------------------------------------------------------------


class NotASession(CoppiceError):
    """The file is not a session file; it was left untouched."""


class SessionNotFound(CoppiceError):
    """No session has the given path or id."""


class AmbiguousSession(CoppiceError):
    """An id prefix fits several sessions; ``candidates`` names them."""

    def __init__(self, message: str, candidates: tuple[str, ...]) -> None:
        super().__init__(message)
        self.candidates = candidates


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a session's writer lock, as that process wrote it down.

    ``pid`` is a process id on ``host``; ``start`` is ISO 8601 UTC; ``command`` the program's command line.
    """

    pid: int
    host: str
    start: str
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.command}, since {self.start})"


class SessionHeld(CoppiceError):
    """Another process writes to this session. Fork it, read along (``mode="read"``) or share (``mode="shared"``)."""

    def __init__(self, message: str, holder: Holder) -> None:
        super().__init__(message)
        self.holder = holder


class ReadOnlySession(CoppiceError):
    """An append was asked of a session opened with ``mode="read"``."""


class LeafMoved(CoppiceError):
    """The leaf an append was computed for is no longer this manager's leaf; nothing was written."""


class StorageFailure(CoppiceError):
    """A write or a sync failed: the entry counts as not stored and was not announced; the leaf did not move."""


class UnknownEntryId(CoppiceError):
    """No entry of this session has the given id."""


class BridgeNeedsConsent(CoppiceError):
    """The path crosses a gap that was bridged by guess; a request needs the user's yes first."""


# --- the agent ---------------------------------------------------------------------------------


class Busy(CoppiceError):
    """The command is refused because a run is active; abort it or wait for it."""


class NothingToContinue(CoppiceError):
    """``continue_`` was called where the model has nothing to answer."""


class ToolError(CoppiceError):
    """A tool call failed; the text is what the model is told."""


class InvalidArguments(ToolError):
    """A tool call's arguments do not fit the tool's schema."""


class UnknownModel(CoppiceError):
    """No provider or model of this name can be used; the text says why."""


class ProviderError(CoppiceError):
    """A model request failed.

    ``status`` is the HTTP status (None when there was none), ``code`` the provider's own error code or type,
    ``retry_after_ms`` what the provider asked for in milliseconds, ``body`` the raw error body as text.
    ``transient`` says that the same request may succeed later: rate limit, overload, a 5xx, a dropped connection.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after_ms: int | None = None,
        body: str = "",
        transient: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_ms = retry_after_ms
        self.body = body
        self.transient = transient


class ContextOverflow(ProviderError):
    """The request is larger than the model's context window."""


# --- settings and the command line ------------------------------------------------------------


class InvalidSettings(CoppiceError):
    """The settings file cannot be used; the text names file, key and what is expected."""


class UsageError(CoppiceError):
    """A command was given words it cannot use."""
