"""Running the tool calls of one reply, in parallel: each result is stored as soon as it is there, then announced.

Whatever ends a call (its tool, an error, an abort), it gets exactly one result.
"""

import asyncio
import copy
import time
from pathlib import Path

import msgspec

from coppice.agent.run import Run
from coppice.agent.step import RunTools
from coppice.errors import CoppiceError, ToolError
from coppice.format.codec import encode
from coppice.format.events import PartialResult, ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from coppice.format.messages import EntryId, TextBlock, ToolCall, ToolCallId, ToolResultMessage
from coppice.session.drafts import now_ms
from coppice.tools.base import ToolContext, ToolResult, text_result

ABORTED = "[interrupted: the user aborted this tool call before it finished]"
"""What the model is told of a call that was aborted; what the tool had shown stands before it."""


async def run_tools(run: Run, step: RunTools) -> tuple[ToolResultMessage, ...]:
    """Run calls in parallel; their results in call order, each stored.

    Raises:
        StorageFailure, LeafMoved: a result could not be stored; the other calls were stopped.
        asyncio.CancelledError: aborted; calls that had begun have their results, see `close_calls` for the others.
    """
    results: dict[ToolCallId, ToolResultMessage] = {}
    try:
        async with asyncio.TaskGroup() as group:
            for call in step.calls:
                group.create_task(_run_one(run, step.reply_id, call, results))
    except* CoppiceError as failures:
        raise failures.exceptions[0] from None
    return tuple(results[call.id] for call in step.calls)


def close_calls(run: Run, step: RunTools) -> None:
    """Store a result for calls that were aborted before they began."""
    for call in step.calls:
        _store(run, step.reply_id, call, text_result(ABORTED, is_error=True), None)


async def _run_one(run: Run, reply_id: EntryId, call: ToolCall, results: dict[ToolCallId, ToolResultMessage]) -> None:
    shown: list[ToolResult] = [text_result("")]

    def update(partial: ToolResult) -> None:
        shown[0] = partial
        partial_result = PartialResult(partial.content, partial.details)
        run.emit(ToolExecutionUpdate(call.id, call.name, call.arguments, partial_result))

    run.emit(ToolExecutionStart(call.id, call.name, call.arguments))
    begun = time.monotonic()
    context = ToolContext(_directory(run), run.output_dir, call.id, update)
    try:
        result = await _result_of(run, call, context)
    except asyncio.CancelledError:
        results[call.id] = _store(run, reply_id, call, _interrupted(shown[0]), _since(begun))
        raise
    results[call.id] = _store(run, reply_id, call, result, _since(begun))


async def _result_of(run: Run, call: ToolCall, context: ToolContext) -> ToolResult:
    tool = run.tools.get(call.name)
    if tool is None:
        return text_result(f"There is no tool {call.name!r}. Tools: {', '.join(run.tools) or 'none'}", is_error=True)
    if not context.cwd.is_dir():  # no tool may make a directory anew that is gone
        return text_result(f"The session's directory {context.cwd} is gone; no tool works there", is_error=True)
    try:
        return _as_stored(await tool.run(copy.deepcopy(call.arguments), context))
    except ToolError as error:
        return text_result(str(error), is_error=True)
    except Exception as error:  # noqa: BLE001  (the fence: whatever a tool raises becomes its result)
        return text_result(f"The tool {call.name!r} failed: {type(error).__name__}: {error}", is_error=True)


def _as_stored(result: ToolResult) -> ToolResult:
    """The result as it will be read back: what no file can hold is the tool's failure, not the run's.

    Raises:
        TypeError, ValueError, AttributeError: it is no result, or JSON cannot carry it.
    """
    line = encode(PartialResult(result.content, result.details))
    kept = msgspec.json.decode(line, type=PartialResult)
    return ToolResult(kept.content, kept.details, result.is_error)


def _interrupted(shown: ToolResult) -> ToolResult:
    kept = tuple(block for block in shown.content if not (isinstance(block, TextBlock) and not block.text))
    return ToolResult((*kept, TextBlock(ABORTED)), shown.details, is_error=True)


def _store(
    run: Run, reply_id: EntryId, call: ToolCall, result: ToolResult, duration_ms: float | None
) -> ToolResultMessage:
    shown = PartialResult(result.content, result.details)
    message = ToolResultMessage(call.id, call.name, result.content, result.details, result.is_error, now_ms())
    run.emit(ToolExecutionEnd(call.id, call.name, shown, result.is_error, duration_ms))
    run.store(message, below=reply_id)
    return message


def _since(begun: float) -> float:
    return round((time.monotonic() - begun) * 1000, 1)


def _directory(run: Run) -> Path:
    return Path(run.session.cwd)
