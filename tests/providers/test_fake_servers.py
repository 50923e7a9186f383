"""The fake servers as their own processes: how tests of the command line use them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.providers.streamed import KEY, reply_of

from coppice.format.messages import TextBlock
from coppice.providers.pydantic_ai.anthropic import anthropic_model
from coppice.providers.pydantic_ai.openai import completions_model, responses_model

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@contextmanager
def serving(module: str, script: list[object], directory: Path) -> Iterator[str]:
    """A fake server's process; its base URL."""
    path = directory / "script.json"
    path.write_text(json.dumps(script))
    command = [sys.executable, "-m", module, "--script", str(path), "--requests", str(directory / "requests.jsonl")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    assert process.returncode == 0


async def test_a_fake_anthropic_runs_as_a_process(tmp_path: Path) -> None:
    script: list[object] = [{"content": [{"type": "text", "pieces": ["Hel", "lo"]}]}]
    with serving("tests.fakes.anthropic_server", script, tmp_path) as url:
        reply = await reply_of(anthropic_model("claude-sonnet-4-5", KEY, url))
    assert reply.content == (TextBlock("Hello"),)
    (request,) = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert (request["path"], request["body"]["model"]) == ("/v1/messages", "claude-sonnet-4-5")


async def test_a_fake_openai_runs_as_a_process_with_both_apis(tmp_path: Path) -> None:
    message = {"type": "message", "pieces": ["Hel", "lo"]}
    script: list[object] = [{"api": "responses", "content": [message]}, {"api": "completions", "content": [message]}]
    with serving("tests.fakes.openai_server", script, tmp_path) as url:
        replies = [
            await reply_of(responses_model("gpt-6.1-sol", KEY, url)),
            await reply_of(completions_model("qwen3", KEY, url)),
        ]
    assert [reply.content for reply in replies] == [
        (TextBlock("Hello", '{"v":1,"id":"msg_1"}'),),
        (TextBlock("Hello"),),
    ]
    requests = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert [request["path"] for request in requests] == ["/v1/responses", "/v1/chat/completions"]
