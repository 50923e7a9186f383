"""Talking with `coppice` as programs do: scripts for its model, processes to signal, events as they come. No asserts."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.interfaces.cli.command import Coppice, Ended

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True)
class Chat:
    """The command with a scripted model, which lies beside the project."""

    command: Coppice

    @property
    def record(self) -> Path:
        """Where scripted models record what they were sent."""
        return self.command.home.parent / "sent.jsonl"

    def script(self, *replies: JsonObject, recorded: bool = True) -> str:
        """A name for ``--model``: a script with these replies; not `recorded` where no file may grow."""
        path = self.command.home.parent / "script.json"
        script = {"replies": replies} | ({"record": str(self.record)} if recorded else {})
        path.write_text(json.dumps(script))
        return f"scripted/{path}"

    def sent(self) -> list[list[JsonObject]]:
        """The messages of each request so far."""
        return [json.loads(line)["messages"] for line in self.record.read_text().splitlines()]

    def say(self, *words: str, stdin: bytes = b"", prefix: tuple[str, ...] = (), cwd: Path | None = None) -> Ended:
        """Run the command to its end; `prefix` is a program that starts it."""
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "coppice", *words],
            env=self.command.environment(),
            cwd=cwd or self.command.cwd,
            input=stdin,
            capture_output=True,
            timeout=60,
        )
        return Ended(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start the command; it is read and ended by the caller."""
        return subprocess.Popen(
            [sys.executable, "-m", "coppice", *words],
            env=self.command.environment(),
            cwd=self.command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def sessions(self) -> list[Path]:
        """The session files there are, the oldest first."""
        return sorted((self.command.home / "sessions").glob("*/*.jsonl"), key=lambda path: path.name)


def text(reply: str) -> JsonObject:
    """A reply of a script."""
    return {"text": reply}


def bash(*commands: str) -> JsonObject:
    """A reply of a script that runs commands."""
    return {"calls": [{"name": "bash", "arguments": {"command": command}} for command in commands]}


def events_until(process: "subprocess.Popen[bytes]", kind: str, role: str | None = None) -> list[JsonObject]:
    """The JSON lines of a process up to an event of a kind (and a message's role), which is the last."""
    found: list[JsonObject] = []
    assert process.stdout is not None
    for line in process.stdout:
        event: JsonObject = json.loads(line)
        found.append(event)
        message = event.get("message")
        if event["type"] == kind and (role is None or (isinstance(message, dict) and message["role"] == role)):
            return found
    raise AssertionError(f"no {kind} among {[event['type'] for event in found]}")


def entries_of(path: Path) -> list[JsonObject]:
    """The lines of a session file below its header."""
    return [json.loads(line) for line in path.read_bytes().splitlines()[1:]]


def said_in(path: Path) -> list[tuple[str, object]]:
    """Role and content of every message of a session file; the text alone where content is one block of text."""
    return [_said(entry["message"]) for entry in entries_of(path) if entry["type"] == "message"]


def _said(message: object) -> tuple[str, object]:
    assert isinstance(message, dict)
    content = message.get("content", message.get("command"))
    if isinstance(content, list) and len(content) == 1 and content[0]["type"] == "text":
        content = content[0]["text"]
    return message["role"], content


def session_id(path: Path) -> str:
    """The id in a session's header."""
    return json.loads(path.read_bytes().splitlines()[0])["id"]


def wait_for(path: Path) -> None:
    """Wait until another process has made a file."""
    deadline = time.monotonic() + 20
    while not path.exists():
        if time.monotonic() > deadline:
            raise AssertionError(f"{path} was not made")
        time.sleep(0.02)
