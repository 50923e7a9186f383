"""The bash tool and `run_command`, with real processes."""

import asyncio
import os
import resource
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import coppice.errors
from coppice.errors import InvalidArguments, ToolError
from coppice.format.messages import TextBlock
from coppice.tools.base import ToolResult
from coppice.tools.bash import BASH
from coppice.tools.environment import child_environment
from coppice.tools.process import CommandOutcome, run_command
from coppice.tools.truncate import MAX_BYTES, Truncation
from tests.tools.bench import Bench

pytestmark = pytest.mark.anyio

STUBBORN = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done"
"""A shell that does not end at SIGTERM."""


@pytest.fixture(autouse=True)
def umask_022() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody reaps does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return not Path("/proc/self/stat").exists()


def pids_in(bench: Bench) -> list[int]:
    path = bench.cwd / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something another process does; nothing in this one is told of it."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_stdout_and_stderr_come_back_together_in_their_order(bench: Bench) -> None:
    result = await bench.result(BASH, {"command": "echo one; echo two >&2; printf three"})
    assert result == ToolResult((TextBlock("one\ntwo\nthree"),))


async def test_a_silent_command_says_that_there_is_no_output(bench: Bench) -> None:
    assert await bench.result(BASH, {"command": "true"}) == ToolResult((TextBlock("(no output)"),))


async def test_a_failed_command_is_an_error_result_with_its_output(bench: Bench) -> None:
    assert await bench.result(BASH, {"command": "echo oops; exit 3"}) == ToolResult(
        (TextBlock("oops\n\nCommand exited with code 3"),), is_error=True
    )
    assert await bench.result(BASH, {"command": "kill -9 $$"}) == ToolResult(
        (TextBlock("Command exited with code 137"),), is_error=True
    )


async def test_the_command_runs_in_the_session_directory_without_input_in_a_session_of_its_own(bench: Bench) -> None:
    text = await bench.text(BASH, {"command": "pwd -P; cat; ps -o pgid= -p $$ | tr -d ' '; echo $$"})
    directory, group, pid = text.splitlines()
    assert directory == os.path.realpath(bench.cwd)
    assert group == pid
    assert int(pid) != os.getpgrp()


async def test_quotes_newlines_and_a_leading_dash_reach_the_shell_unchanged(bench: Bench) -> None:
    assert await bench.text(BASH, {"command": "echo \"a  b\" '$HOME'\necho ü\\\\n"}) == "a  b $HOME\nü\\n"
    assert "-x: command not found" in await bench.text(BASH, {"command": "-x"})


async def test_a_command_that_cannot_be_started_is_refused(bench: Bench) -> None:
    with pytest.raises(ToolError, match=r"^The command could not be started: embedded null byte$"):
        await bench.result(BASH, {"command": "a\0b"})
    with pytest.raises(ToolError, match=r"^The command could not be started: .*Argument list too long"):
        await bench.result(BASH, {"command": "#" * 5_000_000})
    with pytest.raises(ToolError, match=r"^The working directory /nowhere/at/all does not exist$"):
        await run_command("true", Path("/nowhere/at/all"), output_dir=bench.output_dir)


@pytest.mark.parametrize("timeout", [0, -1, "inf", "nan", 1e12])
async def test_a_timeout_that_is_no_time_is_refused(bench: Bench, timeout: object) -> None:
    with pytest.raises(InvalidArguments, match=r"^Invalid arguments for bash: .*timeout"):
        await bench.result(BASH, {"command": "touch ran", "timeout": timeout})
    assert os.listdir(bench.cwd) == []


@pytest.mark.slow
async def test_a_timeout_ends_grandchildren_that_ignore_sigterm(bench: Bench) -> None:
    bench.file("stubborn.sh", STUBBORN)
    command = "bash stubborn.sh & echo begun; . ./stubborn.sh"
    result = await bench.result(BASH, {"command": command, "timeout": "0.6"})
    assert result == ToolResult(
        (TextBlock("begun\n\nCommand timed out after 0.6 seconds and was ended"),), is_error=True
    )
    pids = pids_in(bench)
    assert len(pids) == 2
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.case("P16")
async def test_cancelling_ends_the_whole_group_before_it_propagates(bench: Bench) -> None:
    bench.file("stubborn.sh", STUBBORN)
    call = asyncio.ensure_future(bench.result(BASH, {"command": "bash stubborn.sh & bash stubborn.sh | cat; echo no"}))
    await until(lambda: len(pids_in(bench)) == 2)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [pid for pid in pids_in(bench) if is_alive(pid)] == []


async def test_cancelling_twice_still_ends_the_group(bench: Bench) -> None:
    call = asyncio.ensure_future(bench.result(BASH, {"command": STUBBORN}))
    await until(lambda: len(pids_in(bench)) == 1)
    call.cancel()
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not is_alive(pids_in(bench)[0])


async def test_a_stopped_command_can_be_ended(bench: Bench) -> None:
    call = asyncio.ensure_future(bench.result(BASH, {"command": "echo $$ > pids; kill -STOP $$; echo no"}))
    await until(lambda: len(pids_in(bench)) == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not is_alive(pids_in(bench)[0])


async def test_the_end_of_the_event_loop_ends_the_command(bench: Bench) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path; from coppice.tools.process import run_command\n"
        "async def main():\n"
        "    task = asyncio.create_task(run_command(sys.argv[1], Path('.'), output_dir=Path('out')))\n"
        "    while not Path('pids').exists(): await asyncio.sleep(0.01)\n"
        "asyncio.run(main())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(coppice.errors.__file__).parents[1])}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, STUBBORN, cwd=bench.cwd, env=environment
    )
    assert await process.wait() == 0
    assert not is_alive(pids_in(bench)[0])


async def test_a_background_process_that_keeps_the_output_open_does_not_keep_the_call(bench: Bench) -> None:
    began = time.monotonic()
    result = await bench.result(BASH, {"command": "sleep 30 & echo $! > pids; echo started"})
    assert time.monotonic() - began < 10
    assert result == ToolResult(
        (TextBlock("started\n\n[Background processes of the command still run; what they print from now on is lost]"),)
    )
    assert is_alive(pids_in(bench)[0])
    os.kill(pids_in(bench)[0], 9)


@pytest.mark.slow
async def test_a_background_process_that_never_stops_printing_does_not_keep_the_call(bench: Bench) -> None:
    command = "(while echo y; do sleep 0.01; done) & echo started"
    result = await asyncio.wait_for(bench.result(BASH, {"command": command}), 20)
    assert not result.is_error
    assert isinstance(result.content[0], TextBlock)
    assert "started" in result.content[0].text


async def test_what_a_pipe_writes_just_after_the_shell_ended_is_still_read(bench: Bench) -> None:
    assert "late" in await bench.text(BASH, {"command": "(sleep 0.05; echo late) & echo early"})


async def test_output_is_shown_while_the_command_runs(bench: Bench) -> None:
    call = asyncio.ensure_future(
        bench.text(BASH, {"command": "echo begun; until [ -e go ]; do sleep 0.01; done; echo end"})
    )
    await until(lambda: bench.shown == ["begun\n"])
    bench.file("go")
    assert await call == "begun\nend"
    assert bench.shown[-1] == "begun\nend\n"


@pytest.mark.case("P25")
async def test_a_character_that_arrives_in_pieces_is_put_together(bench: Bench) -> None:
    command = r"for byte in 360 237 230 200; do printf \\$byte; sleep 0.15; done; printf '\377'"
    assert await bench.text(BASH, {"command": command}) == "😀\ufffd"
    assert all("\ufffd" not in shown for shown in bench.shown[:-1])


@pytest.mark.case("P25")
@pytest.mark.parametrize("offset", range(4))
async def test_a_character_across_the_byte_limit_is_not_split(bench: Bench, offset: int) -> None:
    bench.file("a.txt", "😀" + "a" * (MAX_BYTES - 4 + offset))
    text = await bench.text(BASH, {"command": "cat a.txt"})
    assert text.partition("\n\n")[0] == ("😀" if offset == 0 else "") + "a" * (MAX_BYTES - 4 + offset)


async def test_a_million_lines_keep_their_tail_in_the_result_and_all_of_them_in_a_private_file(bench: Bench) -> None:
    result = await bench.result(BASH, {"command": "seq 1000000"})
    path = Path(result.details["fullOutputPath"])
    expected = "\n".join(str(number) for number in range(998001, 1000001))
    note = f"[Lines 998001-1000000 of 1000000, 6.6 MB in all. Full output: {path}]"
    assert result.content == (TextBlock(f"{expected}\n\n{note}"),)
    assert result.details == {
        "truncation": {
            "truncated": True,
            "truncatedBy": "lines",
            "totalLines": 1000000,
            "totalBytes": 6888896,
            "outputLines": 2000,
            "outputBytes": len(expected),
            "partialLine": False,
            "maxLines": 2000,
            "maxBytes": 51200,
        },
        "fullOutputPath": str(path),
    }
    assert path.read_text() == "".join(f"{number}\n" for number in range(1, 1000001))
    modes = [stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]
    assert path.parent == bench.output_dir


async def test_short_output_makes_no_file(bench: Bench) -> None:
    await bench.result(BASH, {"command": "seq 2000"})
    assert not bench.output_dir.exists()


async def test_memory_does_not_grow_with_the_output(bench: Bench) -> None:
    await bench.result(BASH, {"command": "seq 100000"})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await bench.result(BASH, {"command": "head -c 300000000 /dev/zero | tr '\\0' x"})
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    path = Path(result.details["fullOutputPath"])
    assert path.stat().st_size == 300_000_000
    path.unlink()
    assert result.content[0] == TextBlock(
        "x" * MAX_BYTES + f"\n\n[Only the last 50.0 KB of line 1, 286.1 MB in all. Full output: {path}]"
    )
    assert grown < 30_000 * (1 if sys.platform == "linux" else 1024)


async def test_output_that_cannot_be_saved_is_still_shown(bench: Bench) -> None:
    bench.output_dir.parent.write_text("a file where a directory should be")
    result = await bench.result(BASH, {"command": "seq 3000"})
    assert not result.is_error
    assert isinstance(result.content[0], TextBlock)
    assert result.content[0].text.endswith(
        "\n3000\n\n[Lines 1001-3000 of 3000, 13.6 KB in all. The full output could not be saved: File exists]"
    )
    assert result.details["fullOutputPath"] is None


async def test_run_command_tells_the_outcome_and_the_output_as_it_comes(bench: Bench) -> None:
    deltas: list[str] = []
    outcome = await run_command(
        "printf 'a\\nb'; exit 2", bench.cwd, on_output=deltas.append, output_dir=bench.output_dir
    )
    assert outcome == CommandOutcome(2, "a\nb", Truncation(2, 3, 2, 3))
    assert "".join(deltas) == "a\nb"


async def test_setting_cancel_ends_the_command_and_gives_what_it_printed(bench: Bench) -> None:
    cancel = asyncio.Event()
    running = asyncio.ensure_future(
        run_command(
            "echo begun; sleep 100",
            bench.cwd,
            on_output=lambda _: cancel.set(),
            output_dir=bench.output_dir,
            cancel=cancel,
        )
    )
    outcome = await asyncio.wait_for(running, 20)
    assert outcome == CommandOutcome(None, "begun\n", Truncation(1, 6, 1, 6), cancelled=True)


async def test_a_timeout_in_milliseconds_is_told_in_the_outcome(bench: Bench) -> None:
    outcome = await run_command("echo a; sleep 100", bench.cwd, timeout_ms=100, output_dir=bench.output_dir)
    assert outcome == CommandOutcome(None, "a\n", Truncation(1, 2, 1, 2), timed_out=True)


async def test_many_commands_run_at_once(bench: Bench) -> None:
    texts = await asyncio.gather(*(bench.text(BASH, {"command": f"sleep 0.1; echo {n}"}) for n in range(20)))
    assert texts == [str(number) for number in range(20)]


async def test_no_descriptor_stays_open(bench: Bench) -> None:
    def open_descriptors() -> int:
        return len(os.listdir("/dev/fd"))

    await bench.result(BASH, {"command": "seq 3000"})
    await asyncio.sleep(0)
    before = open_descriptors()
    for command in ("seq 3000", "exit 1", "sleep 0.3 & echo a"):
        await bench.result(BASH, {"command": command})
    await asyncio.sleep(0)
    assert open_descriptors() == before


async def test_commands_do_not_get_the_keys_of_model_providers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hidden")
    monkeypatch.setenv("COPPICE_TEST_VALUE", "kept")
    text = await bench.text(BASH, {"command": "env"})
    assert "COPPICE_TEST_VALUE=kept" in text.splitlines()
    assert "ANTHROPIC_API_KEY" not in text
    assert child_environment(
        {
            "OPENAI_API_KEY": "",
            "ANTHROPIC_AUTH_TOKEN": "",
            "MISTRAL_ACCESS_TOKEN": "",
            "GEMINI_API_KEY_2": "",
            "AWS_BEARER_TOKEN_BEDROCK": "",
            "PATH": "/bin",
            "GITHUB_TOKEN": "the user's",
            "MY_OPENAI_API_KEY_FILE": "",
        }
    ) == {"PATH": "/bin", "GITHUB_TOKEN": "the user's", "MY_OPENAI_API_KEY_FILE": ""}
