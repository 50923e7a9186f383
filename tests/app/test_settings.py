"""Settings: what counts, and how a file that cannot be used is refused."""

from pathlib import Path

import pytest

from coppice.agent.run import Options
from coppice.app.agent_session import AgentSession
from coppice.app.settings import Settings, load_settings
from coppice.errors import InvalidSettings


def test_without_a_file_the_defaults_count(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    assert (settings, settings.options(), settings.sync) == (Settings(), Options(), "entry")


def test_what_is_set_counts(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(
        '{"model": "a/b", "thinkingLevel": "high", "tools": ["read"], "sync": "turn",'
        ' "retry": {"maxRetries": 1, "baseDelayMs": 2, "maxDelayMs": 3}, "steeringMode": "all", "followUpMode": "all"}'
    )
    settings = load_settings(tmp_path)
    assert (settings.model, settings.thinking_level, settings.tools, settings.sync) == (
        "a/b",
        "high",
        ("read",),
        "turn",
    )
    assert settings.options() == Options(1, 2, 3, "all", "all")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"modle": "a/b"}', ("settings.json", "modle")),
        ('{"sync": "sometimes"}', ("settings.json", "$.sync", "sometimes")),
        ('{"retry": {"maxRetries": "three"}}', ("settings.json", "$.retry.maxRetries")),
        ('{"retry": {"maxRetries": -1}}', ("settings.json", "$.retry.maxRetries")),
        ('{"retry": {"baseDelayMs": -1}}', ("settings.json", "$.retry.baseDelayMs")),
        ('{"thinkingLevel": "hihg"}', ("settings.json", "$.thinkingLevel", "hihg")),
        ('{"tools": "read"}', ("settings.json", "$.tools")),
        ('{"tools": ["read", "nope"]}', ("settings.json", "tools", "nope")),
        ("[]", ("settings.json", "object")),
        ('{\n  "model": "a/b",\n  oops\n}', ("settings.json:3", "not JSON")),
        ("", ("settings.json:1", "not JSON")),
        ('{"model": "\\ud800"}', ("settings.json",)),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_file_and_key(
    tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(InvalidSettings) as refused:
        AgentSession.create(tmp_path, home=tmp_path)
    told = str(refused.value)
    assert ([word for word in words if word not in told], "\n" in told) == ([], False), told
    assert path.read_text() == text


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b'{"model": "\xff"}')
    with pytest.raises(InvalidSettings, match=r"settings\.json"):
        load_settings(tmp_path)


def test_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    with pytest.raises(InvalidSettings, match=r"settings\.json: cannot be read"):
        load_settings(tmp_path)


@pytest.mark.anyio
async def test_sessions_lie_where_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(f'{{"sessionDir": "{tmp_path}/elsewhere"}}')
    async with AgentSession.create(tmp_path, home=tmp_path) as session:
        session.set_session_name("here")
        assert list((tmp_path / "elsewhere").iterdir()) == [session.session.session_file]
