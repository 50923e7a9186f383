"""The house of the app's tests: an `AgentSession` in a home and a project of its own, and ears."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coppice.app.agent_session import AgentSession, Wishes
from coppice.app.settings import Settings
from coppice.errors import UnknownModel
from coppice.format.events import SessionEvent
from coppice.format.messages import EntryId
from coppice.providers.base import Model, ModelInfo, Request
from coppice.providers.scripted import ScriptedModel, ScriptStep
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.tools.function_tool import function_tool

QUICK = Settings(tools=())


@dataclass(slots=True)
class House:
    """Where a controller lives; ``heard`` are all events in order."""

    home: Path
    project: Path
    heard: list[SessionEvent] = field(default_factory=list[SessionEvent])

    @classmethod
    def at(cls, tmp_path: Path) -> "House":
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        return cls(tmp_path / "home", project)

    def enter(
        self,
        *replies: ScriptStep,
        model: str | Model | None = None,
        tools: Iterable[Callable[..., object]] = (),
        open_path: Path | None = None,
        models: Sequence[Model] = (),
        level: str | None = None,
        settings: Settings = QUICK,
    ) -> AgentSession:
        """A controller for a new session, or for the file at `open_path`. With `models` names are looked up there."""
        setup = Setup(self.home)
        session = (
            SessionManager.create(self.project, setup=setup)
            if open_path is None
            else SessionManager.open(open_path, setup=setup)
        )
        wished = model if model is not None or models else ScriptedModel(replies)
        made = tuple(map(function_tool, tools))
        wishes = Wishes(wished, thinking_level=level, tools=made, resolve=among(models))
        entered = AgentSession(session, wishes, settings=settings)
        entered.subscribe(self.heard.append)
        return entered

    def sessions(self) -> list[Path]:
        return sorted(self.home.glob("sessions/*/*.jsonl"))

    def notices(self) -> list[str]:
        return [event.message for event in self.heard if event.__struct_config__.tag == "notice"]  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType]  (a notice)


def among(models: Sequence[Model]) -> Callable[[str], Model]:
    """Resolves the names of these models and no other."""

    def resolve(name: str) -> Model:
        for model in models:
            if model.info.name == name:
                return model
        raise UnknownModel(f"no key for {name}")

    return resolve


def model_named(provider: str, model_id: str, *replies: ScriptStep) -> ScriptedModel:
    """A scripted model of another provider."""
    return ScriptedModel(replies, ModelInfo(provider, model_id, f"{provider}-api", context_window=200_000))


def asked(session: AgentSession, number: int = -1) -> Request:
    """What the session's scripted model was sent, by default last."""
    model = session.agent.kit.model
    assert isinstance(model, ScriptedModel)
    return model.requests[number]


def path_file(session: AgentSession) -> Path:
    assert session.session.session_file is not None
    return session.session.session_file


def leaf(session: AgentSession) -> EntryId | None:
    return session.session.get_leaf_id()
