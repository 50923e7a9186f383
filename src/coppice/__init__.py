"""A coding agent and a library around durable sessions.

This file holds the version and the table of public names, each loaded from its module when it is first asked for:
`import coppice` itself loads nothing else. What the names do is told where they are defined.
"""

import importlib

TYPE_CHECKING = False  # type checkers take it for true; typing itself would cost every start 5 ms
if TYPE_CHECKING:
    from coppice.agent.agent import Agent, Kit
    from coppice.agent.run import Options
    from coppice.app.agent_session import AgentSession, Wishes
    from coppice.errors import (
        AmbiguousSession,
        BridgeNeedsConsent,
        Busy,
        ContextOverflow,
        CoppiceError,
        InvalidArguments,
        InvalidSettings,
        LeafMoved,
        NotASession,
        NothingToContinue,
        ProviderError,
        ReadOnlySession,
        SessionHeld,
        SessionNotFound,
        StorageFailure,
        ToolError,
        UnknownEntryId,
        UnknownModel,
        UsageError,
    )
    from coppice.providers.base import Model, ModelInfo, Request
    from coppice.providers.scripted import ScriptedModel, call, calls, say
    from coppice.session.manager import SessionManager
    from coppice.tools.base import Tool, ToolContext, ToolResult, text_result
    from coppice.tools.function_tool import function_tool

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentSession",
    "AmbiguousSession",
    "BridgeNeedsConsent",
    "Busy",
    "ContextOverflow",
    "CoppiceError",
    "InvalidArguments",
    "InvalidSettings",
    "Kit",
    "LeafMoved",
    "Model",
    "ModelInfo",
    "NotASession",
    "NothingToContinue",
    "Options",
    "ProviderError",
    "ReadOnlySession",
    "Request",
    "ScriptedModel",
    "SessionHeld",
    "SessionManager",
    "SessionNotFound",
    "StorageFailure",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "UnknownEntryId",
    "UnknownModel",
    "UsageError",
    "Wishes",
    "call",
    "calls",
    "function_tool",
    "say",
    "text_result",
]

_MODULES = {
    "Agent": "coppice.agent.agent",
    "AgentSession": "coppice.app.agent_session",
    "Kit": "coppice.agent.agent",
    "Model": "coppice.providers.base",
    "ModelInfo": "coppice.providers.base",
    "Options": "coppice.agent.run",
    "Request": "coppice.providers.base",
    "ScriptedModel": "coppice.providers.scripted",
    "SessionManager": "coppice.session.manager",
    "Tool": "coppice.tools.base",
    "ToolContext": "coppice.tools.base",
    "ToolResult": "coppice.tools.base",
    "Wishes": "coppice.app.agent_session",
    "call": "coppice.providers.scripted",
    "calls": "coppice.providers.scripted",
    "function_tool": "coppice.tools.function_tool",
    "say": "coppice.providers.scripted",
    "text_result": "coppice.tools.base",
}
"""Public name -> the module that defines it. The names of `__all__` that are not here are errors."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'coppice' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_MODULES.get(name, "coppice.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
