"""The prompt of a command line: piped text, files and words become one user message."""

import base64
import sys
from pathlib import Path

from coppice.errors import UsageError
from coppice.format.messages import Content, ImageBlock, TextBlock
from coppice.tools.read import MAX_IMAGE_BYTES, image_type
from coppice.tools.truncate import size_text

MAX_TEXT_BYTES = 2 * 1024 * 1024
"""The most bytes of a text file that go into a prompt (our choice: more than any model's window)."""


def piped_text() -> str:
    """What was piped in; empty at a terminal."""
    if sys.stdin is None or sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]  (None where it was closed)
        return ""
    try:
        return sys.stdin.buffer.read().decode("utf-8", "replace").strip("\n")
    except OSError as error:
        raise UsageError(f"standard input cannot be read: {error.strerror}") from error


def prompt_content(piped: str, files: tuple[str, ...], words: tuple[str, ...]) -> Content | None:
    """One prompt: piped text first, then files (paths without ``@``), then the words. None if there is nothing in it.

    Raises:
        UsageError: a file cannot be put into a prompt.
    """
    texts = [piped] if piped else []
    images: list[ImageBlock] = []
    for name in files:
        taken = _taken(name)
        if isinstance(taken, ImageBlock):
            images.append(taken)
            texts.append(f"Image {name} is attached.")
        else:
            texts.append(f"File {name}:\n{taken}\nEnd of file {name}.")
    said = " ".join(words).strip()
    text = "\n\n".join([*texts, said] if said else texts)
    if not text:
        return None
    return (TextBlock(text), *images) if images else text


def _taken(name: str) -> str | ImageBlock:
    path = Path(name).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a usable path"
        raise UsageError(f"@{name}: {reason}") from error
    kind = image_type(data)
    limit = MAX_TEXT_BYTES if kind is None else MAX_IMAGE_BYTES
    if len(data) > limit:
        raise UsageError(f"@{name}: larger than {size_text(limit)}; let the model read it with its tools instead")
    if kind is not None:
        return ImageBlock(base64.b64encode(data).decode("ascii"), kind)
    if b"\0" in data[:8192]:
        raise UsageError(f"@{name}: neither text nor an image (png, jpeg, gif, webp)")
    return data.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\n")
