"""Settings: ``COPPICE_HOME/settings.json``, validated. A project's own settings file is not read yet.

A key coppice does not know, or a value that does not fit, is an error that names file and key: a typo must not pass.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from coppice.agent.run import Options
from coppice.compaction.settings import CompactionSettings
from coppice.errors import InvalidSettings
from coppice.tools.toolset import ALL_TOOLS, DEFAULT_TOOLS

SyncPolicy = Literal["entry", "turn", "never"]
"""When what was appended is synced to the drive: after each entry, at the end of each turn, or left to the system."""

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
"""The levels of `THINKING_LEVELS`, for the validation of the file."""

Count = Annotated[int, msgspec.Meta(ge=0)]


class RetrySettings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Retries of a request that failed for a passing reason. Delays are milliseconds."""

    max_retries: Count = Options().max_retries
    base_delay_ms: Count = Options().retry_base_ms
    max_delay_ms: Count = Options().retry_cap_ms


class Settings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What the user has set.

    ``model`` is ``provider/id``; ``base_url`` another server for it; ``session_dir`` where session files lie instead
    of under the home; ``steering_mode`` and ``follow_up_mode`` whether waiting messages go one at a time or all.
    """

    model: str | None = None
    base_url: str | None = None
    thinking_level: ThinkingLevel = "off"
    tools: tuple[str, ...] = DEFAULT_TOOLS
    session_dir: str | None = None
    sync: SyncPolicy = "entry"
    retry: RetrySettings = RetrySettings()
    steering_mode: Literal["one", "all"] = "one"
    follow_up_mode: Literal["one", "all"] = "one"
    compaction: CompactionSettings = CompactionSettings()

    def __post_init__(self) -> None:
        unknown = [name for name in self.tools if name not in ALL_TOOLS]
        if unknown:
            raise ValueError(f"unknown tool {unknown[0]!r}, known are {', '.join(ALL_TOOLS)} - at `$.tools`")

    def options(self) -> Options:
        """How runs behave under these settings."""
        return Options(
            max_retries=self.retry.max_retries,
            retry_base_ms=self.retry.base_delay_ms,
            retry_cap_ms=self.retry.max_delay_ms,
            steering=self.steering_mode,
            follow_up=self.follow_up_mode,
        )


def load_settings(home: Path) -> Settings:
    """The settings of a home; the defaults where it has no file.

    Raises:
        InvalidSettings: the file is not JSON, or something in it cannot be used; the text names file and key.
    """
    path = home / "settings.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise InvalidSettings(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return msgspec.json.decode(data, type=Settings)
    except msgspec.ValidationError as error:
        raise InvalidSettings(f"{path}: {error}") from error
    except msgspec.DecodeError as error:
        line = _line_of_error(data, str(error))
        raise InvalidSettings(f"{path}:{line}: is not JSON: {error}") from error


def _line_of_error(data: bytes, text: str) -> int:
    """The line a decoder's ``(byte N)`` stands on; 1 where it names none."""
    _, _, position = text.rpartition("(byte ")
    digits = position.rstrip(")")
    return data.count(b"\n", 0, int(digits)) + 1 if digits.isdigit() else 1
