"""The rules of the house that a machine can check, by reading src/coppice. Ruff and pyright check the others.

Every exception to a rule stands here, by name and with its reason. A rule that is in the way is discussed, not widened.
"""

import ast
import os
import re
from collections.abc import Iterator

import pytest

from tests.source_tree import (
    ROOT,
    Import,
    Module,
    attributes,
    is_frozen_value,
    modules,
    nesting,
)

# --- floors --------------------------------------------------------------------------------------

FLOORS = {
    "format": 0,
    "errors": 0,
    "tree": 1,
    "storage": 2,
    "providers": 2,
    "tools": 2,
    "session": 3,
    "agent": 4,
    "compaction": 4,
    "app": 5,
    "interfaces": 6,
}
"""Room -> floor. Imports point to lower floors or stay in their room; everyone may import errors."""

FRONT = ("__init__.py", "__main__.py")
"""The front door stands outside the floors: it names everything, and nothing imports it but for `__version__`."""

DOOR = "interfaces/cli/main.py"
"""The one file that may load another interface: it starts the one the user asked for, when it is asked for."""

SINGLE_ROOMS = {
    "pydantic_ai": ("providers/pydantic_ai.py", "providers/pydantic_ai/"),
    "openai": ("providers/pydantic_ai.py", "providers/pydantic_ai/"),
    "anthropic": ("providers/pydantic_ai.py", "providers/pydantic_ai/"),
    "google": ("providers/pydantic_ai.py", "providers/pydantic_ai/"),
    "sqlite3": ("session/catalogue.py",),
    "textual": ("interfaces/tui/",),
    "acp": ("interfaces/acp/",),
}
"""Library -> the only places that import it."""

LATE_IMPORTS = {
    ("__main__.py", "coppice.interfaces.cli.main"): "`coppice --version` loads nothing else",
    ("interfaces/cli/", "coppice.interfaces"): "a subcommand is loaded when it is asked for",
    ("interfaces/cli/", "coppice.app"): "a subcommand that lists sessions needs no agent",
    ("providers/catalogue.py", "coppice.providers"): "a model is loaded when it is asked for",
    ("providers/", "genai_prices"): "only a model whose window is not known needs its data",
    ("providers/pydantic_ai", "pydantic_ai"): "0.75 s, and only a model call needs it",
    ("providers/pydantic_ai", "openai"): "each provider's client is loaded when its model is called",
    ("providers/pydantic_ai", "anthropic"): "each provider's client is loaded when its model is called",
    ("providers/pydantic_ai", "google"): "each provider's client is loaded when its model is called",
    ("providers/pydantic_ai", "httpx"): "comes with the clients",
    ("tools/function_tool.py", "pydantic"): "73 ms, and only a tool made from a function needs it",
}
"""(file, or its beginning; imported module, or a package above it) -> why the import stands inside a function."""


def room_of(name: str) -> str:
    """The room of a module's dotted name: ``coppice.tree.index`` is in ``tree``. The front door's room is empty."""
    return name.removeprefix("coppice").removeprefix(".").partition(".")[0]


def is_below(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def ours(module: Module) -> Iterator[Import]:
    return (found for found in module.imports if is_below(found.target, "coppice"))


def interface_of(name: str) -> str:
    return ".".join(name.split(".")[:3])


def points_down(module: Module, found: Import) -> bool:
    room, other = room_of(module.name), room_of(found.target)
    if other == "errors":
        return True
    if other not in FLOORS:
        return False
    if room != other:
        return FLOORS[other] < FLOORS[room]
    if room != "interfaces" or interface_of(module.name) == interface_of(found.target):
        return True
    return module.file == DOOR and found.late


def test_every_module_is_in_a_room_of_the_plan() -> None:
    strangers = [m.file for m in modules() if m.file not in FRONT and room_of(m.name) not in FLOORS]
    assert strangers == []


def test_imports_point_down_the_floors() -> None:
    wrong = [
        f"{module.file}:{found.line} imports {found.target}"
        for module in modules()
        if module.file not in FRONT
        for found in ours(module)
        if not points_down(module, found)
    ]
    assert wrong == []


def test_imports_stand_at_the_top_of_the_file() -> None:
    wrong = [
        f"{module.file}:{found.line} imports {found.target} late"
        for module in modules()
        for found in module.imports
        if found.late
        and not any(module.file.startswith(file) and is_below(found.target, name) for file, name in LATE_IMPORTS)
    ]
    assert wrong == []


def test_a_library_with_one_room_is_imported_there_only() -> None:
    wrong = [
        f"{module.file}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports
        for library, rooms in SINGLE_ROOMS.items()
        if is_below(found.target, library) and not module.file.startswith(rooms)
    ]
    assert wrong == []


# --- purity --------------------------------------------------------------------------------------

IMPURE_MODULES = frozenset(
    "asyncio anyio concurrent fcntl glob io logging mmap multiprocessing os pathlib random secrets shutil signal socket"
    " subprocess sys tempfile threading time uuid".split()
)
IMPURE_CALLS = frozenset({"open", "print", "input", "breakpoint", "exec", "eval"})
IMPURE_METHODS = frozenset(
    "now utcnow today read_text write_text read_bytes write_bytes unlink mkdir exists is_file is_dir".split()
)


def impurities(module: Module) -> Iterator[str]:
    for found in module.imports:
        pure_path = is_below(found.target, "pathlib.PurePath") or is_below(found.target, "pathlib.PurePosixPath")
        if found.target.partition(".")[0] in IMPURE_MODULES and not pure_path:
            yield f"{module.file}:{found.line} imports {found.target}"
    for node in ast.walk(module.tree):
        match node:
            case ast.AsyncFunctionDef() | ast.Await():
                yield f"{module.file}:{node.lineno} is async"
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                yield f"{module.file}:{node.lineno} calls {name}"
            case ast.Call(func=ast.Attribute(attr=name)) if name in IMPURE_METHODS:
                yield f"{module.file}:{node.lineno} calls {name}"
            case _:
                pass


def test_format_and_tree_know_no_files_clock_chance_tasks_or_logs() -> None:
    pure = [module for module in modules() if FLOORS.get(room_of(module.name), 9) <= 1]
    assert [found for module in pure for found in impurities(module)] == []


# --- caps ----------------------------------------------------------------------------------------

FILE_CAP, CLASS_CAP, FUNCTION_CAP = 500, 300, 60
"""Lines of code, without docstrings, comments and blank lines. The aims are 300, 200 and 35."""

FILE_CAPS = {"app/agent_session.py": 400, "interfaces/tui/app.py": 400}
"""The two files that became giants in every agent we measured."""

ATTRIBUTE_CAP = 8
FIELD_CAP = 12
"""Attributes of a class that acts, and fields of a frozen value. The format's own kinds have what the format has."""

ATTRIBUTE_EXCEPTIONS = {"coppice.providers.scripted:_ReplyForm": "the keys a script may give a reply, each optional"}
"""module:Class -> why it holds more."""

PARAMETER_CAP = 5
"""Parameters that may be given by position, self left out."""

NESTING_CAP = 4
"""Blocks in blocks inside one function; the aim is 3."""


def test_files_stay_under_their_cap() -> None:
    lengths = {module.file: len(module.code_lines) for module in modules()}
    assert {file: length for file, length in lengths.items() if length > FILE_CAPS.get(file, FILE_CAP)} == {}


def test_classes_stay_under_their_cap() -> None:
    lengths = {f"{m.file}:{name}": m.length(node) for m in modules() for name, node in m.classes()}
    assert {name: length for name, length in lengths.items() if length > CLASS_CAP} == {}


def test_functions_stay_under_their_cap() -> None:
    lengths = {f"{m.file}:{name}": m.length(node) for m in modules() for name, node in m.functions()}
    assert {name: length for name, length in lengths.items() if length > FUNCTION_CAP} == {}


def test_functions_nest_their_blocks_no_deeper_than_the_cap() -> None:
    depths = {f"{m.file}:{name}": nesting(node) for m in modules() for name, node in m.functions()}
    assert {name: depth for name, depth in depths.items() if depth > NESTING_CAP} == {}


def test_classes_have_few_attributes() -> None:
    wrong = {
        f"{module.name}:{name}": sorted(held)
        for module in modules()
        if room_of(module.name) != "format"
        for name, node in module.classes()
        if len(held := attributes(node)) > (FIELD_CAP if is_frozen_value(node) else ATTRIBUTE_CAP)
        and f"{module.name}:{name}" not in ATTRIBUTE_EXCEPTIONS
    }
    assert wrong == {}


def test_functions_take_few_parameters_by_position() -> None:
    counts = {f"{m.file}:{name}": positional(node.args) for m in modules() for name, node in m.functions()}
    assert {name: given for name, given in counts.items() if len(given) > PARAMETER_CAP} == {}


def positional(arguments: ast.arguments) -> list[str]:
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return [name for name in names if name not in ("self", "cls")]


# --- law 3: one copy -----------------------------------------------------------------------------

CONTAINERS = frozenset(
    "list dict tuple set frozenset deque Sequence MutableSequence Mapping MutableMapping Iterable Iterator".split()
)

MAY_HOLD_MESSAGES = {
    "coppice.providers.base:Request.messages": "one request, made and dropped within a step",
    "coppice.providers.scripted:ScriptedModel.requests": "scripted's recording",
}
"""module:Class.attribute -> why it may hold stored messages."""


def stored_kinds() -> frozenset[str]:
    """Names of the types that stand for what is in a session file."""
    names = {name for module in modules() if module.file.startswith("format/") for name in top_names(module.tree)}
    return frozenset(name for name in names if name.endswith(("Message", "Entry")))


def top_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass


def holds_many(annotation: ast.expr, kinds: frozenset[str]) -> bool:
    """Whether the type is, or has in it, a container of stored messages or entries."""
    match annotation:
        case ast.Constant(value=str(text)):
            return holds_many(ast.parse(text, mode="eval").body, kinds)
        case ast.Subscript(value=base, slice=inner):
            word = ast.unparse(base).rpartition(".")[2]
            if word == "Callable":
                return False
            return (word in CONTAINERS and names_any(inner, kinds)) or holds_many(inner, kinds)
        case ast.BinOp(left=left, right=right):
            return holds_many(left, kinds) or holds_many(right, kinds)
        case ast.Tuple(elts=parts):
            return any(holds_many(part, kinds) for part in parts)
        case _:
            return False


def names_any(node: ast.expr, kinds: frozenset[str]) -> bool:
    words = {word for part in ast.walk(node) for word in words_of(part)}
    return bool(words & kinds)


def words_of(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word):
            return {word}
        case ast.Constant(value=str(text)):
            return set(re.findall(r"\w+", text))
        case _:
            return set()


def test_nothing_outside_format_and_tree_keeps_stored_messages() -> None:
    kinds = stored_kinds()
    assert {"Message", "UserMessage", "Entry", "MessageEntry"} <= kinds
    wrong = [
        f"{module.name}:{name}.{attribute.name}: {attribute.annotation}"
        for module in modules()
        if room_of(module.name) not in ("format", "tree")
        for name, node in module.classes()
        for attribute in attributes(node).values()
        if attribute.annotation
        and holds_many(ast.parse(attribute.annotation, mode="eval").body, kinds)
        and f"{module.name}:{name}.{attribute.name}" not in MAY_HOLD_MESSAGES
    ]
    assert wrong == []


# --- errors, output, words -----------------------------------------------------------------------

FENCES = {
    "agent/execute.py": "a tool call: what it raises becomes its result",
    "agent/agent.py": "the outermost run: what it raises becomes the run's end",
    "app/extensions/hooks.py": "an extension's hook: what it raises becomes a notice",
}
"""The only files that may say `except Exception`, once each."""


def broad_handlers(module: Module) -> Iterator[int]:
    """Lines that catch everything. Cleaning up after anything and raising it again swallows nothing."""
    for node in ast.walk(module.tree):
        match node:
            case ast.ExceptHandler(type=None):
                yield node.lineno
            case ast.ExceptHandler(type=caught, body=body) if names_any(caught, frozenset({"Exception"})):
                yield node.lineno
            case ast.ExceptHandler(type=caught, body=body) if names_any(caught, frozenset({"BaseException"})):
                if not (isinstance(body[-1], ast.Raise) and body[-1].exc is None):
                    yield node.lineno
            case ast.Call(func=function, args=caught) if ast.unparse(function).endswith("suppress"):
                if any(names_any(kind, frozenset({"Exception", "BaseException"})) for kind in caught):
                    yield node.lineno
            case _:
                pass


def test_everything_is_caught_at_the_three_fences_only() -> None:
    found = {module.file: list(broad_handlers(module)) for module in modules()}
    assert {file: lines for file, lines in found.items() if len(lines) > (1 if file in FENCES else 0)} == {}


def test_only_interfaces_print() -> None:
    wrong = [
        f"{module.file}:{node.lineno}"
        for module in modules()
        if room_of(module.name) != "interfaces" and module.file != "__main__.py"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write")
    ]
    assert wrong == []


def test_every_module_says_what_lives_in_it() -> None:
    assert [module.file for module in modules() if module.tree.body and not ast.get_docstring(module.tree)] == []


def test_no_module_is_named_for_nothing() -> None:
    empty_words = ("util", "utils", "helper", "helpers", "common", "misc", "shared", "stuff")
    assert [module.file for module in modules() if set(re.split(r"[/._]", module.file)) & set(empty_words)] == []


def test_a_checker_is_silenced_with_a_reason_only() -> None:
    silenced = re.compile(r"(# (type|pyright): ignore(\[[\w, -]*\])?|\bcast\([^#]*#?)(?P<reason>.*)$")
    wrong = [
        f"{module.file}:{number}: {line.strip()}"
        for module in modules()
        for number, line in enumerate(module.text.splitlines(), 1)
        if (match := silenced.search(line)) and not re.search(r"\w", match["reason"])
    ]
    assert wrong == []


# --- the repository ------------------------------------------------------------------------------

FORBIDDEN_TEXT = re.compile(
    r"(?<![\w.~-])/(work|root)/\w|/tmp/(venv|h)/|\bpypi[.]org|pythonhosted[.]org|registry[.]npmjs|deb[.]debian[.]org"
)
"""Paths of the machines this was written on, and addresses of package registries."""

NOT_OURS = frozenset({".git", ".hypothesis", ".venv", ".peers", "node_modules", "__pycache__", "build", "dist", "out"})


def repository_files() -> Iterator[str]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS and not name.endswith(("_cache", ".egg-info"))]
        yield from (os.path.join(folder, name) for name in files)


def test_the_repository_names_no_machine_and_no_registry() -> None:
    wrong: list[str] = []
    for path in repository_files():
        with open(path, encoding="utf-8", errors="replace") as file:
            wrong.extend(f"{path}:{number}" for number, line in enumerate(file, 1) if FORBIDDEN_TEXT.search(line))
    assert wrong == []


# --- the rules themselves ------------------------------------------------------------------------


def example(text: str, file: str = "agent/example.py") -> Module:
    return Module(file, "coppice." + file.removesuffix(".py").replace("/", "."), text)


@pytest.mark.parametrize(
    ("file", "statement", "allowed"),
    [
        ("session/example.py", "from coppice.tree.path import path", True),
        ("session/example.py", "from coppice.agent.agent import Agent", False),
        ("storage/example.py", "from coppice.tools.base import Tool", False),
        ("agent/example.py", "from coppice.compaction.cut import cut", False),
        ("format/example.py", "from coppice.errors import NotASession", True),
        ("tree/example.py", "import coppice.storage", False),
        ("interfaces/cli/example.py", "from coppice.interfaces.tui.app import App", False),
        ("tools/example.py", "from coppice import SessionManager", False),
        ("tools/example.py", "from coppice import __version__", True),
    ],
)
def test_the_floor_rule_knows_up_from_down(file: str, statement: str, allowed: bool) -> None:
    module = example(statement, file)
    assert all(points_down(module, found) for found in ours(module)) is allowed


@pytest.mark.parametrize(
    ("annotation", "many"),
    [
        ("list[Message]", True),
        ("dict[str, MessageEntry] | None", True),
        ("'tuple[Entry, ...]'", True),
        ("Message | None", False),
        ("list[EntryId]", False),
        ("Callable[[list[Message]], None]", False),
    ],
)
def test_the_law_of_one_copy_knows_a_list_of_messages(annotation: str, many: bool) -> None:
    assert holds_many(ast.parse(annotation, mode="eval").body, stored_kinds()) is many


def test_the_caps_count_code_without_docstrings_comments_and_blank_lines() -> None:
    module = example('"""Two\nlines."""\n\n# why\nx = """a\n# b\n"""\n\n\ndef f() -> None:\n    """Doc."""\n    pass\n')
    assert (len(module.code_lines), [module.length(node) for _, node in module.functions()]) == (5, [2])


def test_the_fence_rule_lets_a_clean_up_raise_again() -> None:
    again = example("try:\n    f()\nexcept BaseException:\n    g()\n    raise\n")
    swallowed = example("try:\n    f()\nexcept (OSError, Exception):\n    pass\n")
    assert (list(broad_handlers(again)), list(broad_handlers(swallowed))) == ([], [3])
