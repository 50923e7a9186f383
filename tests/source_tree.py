"""The source tree as test_architecture.py reads it: modules, imports, lines of code, classes. No rule stands here."""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "coppice"

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module. ``late`` says that the import stands inside a function or class."""

    target: str
    line: int
    late: bool


@dataclass(frozen=True)
class Module:
    """One file of src/coppice; ``file`` is its path below src/coppice, ``name`` its dotted name."""

    file: str
    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.file)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        names = frozenset(module_names())
        return tuple(
            Import(target, node.lineno, late)
            for node, late in walk_with_lateness(self.tree, late=False)
            for target in import_targets(node, names)
        )

    @cached_property
    def code_lines(self) -> frozenset[int]:
        """Numbers of the lines that hold code: no docstrings, comments or blank lines."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        code = {
            line for token in tokens if token.type not in NO_CODE for line in range(token.start[0], token.end[0] + 1)
        }
        return frozenset(code - set(docstring_lines(self.tree)))

    def length(self, node: ast.AST) -> int:
        """Lines of code of a function or class, its decorators left out."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return len(self.code_lines & set(range(node.lineno, (node.end_lineno or node.lineno) + 1)))
            case _:
                raise TypeError(node)

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Every function, with its dotted name inside the module."""
        return ((name, node) for name, node in named(self.tree, "") if isinstance(node, Function))

    def classes(self) -> Iterator[tuple[str, ast.ClassDef]]:
        """Every class, with its dotted name inside the module."""
        return ((name, node) for name, node in named(self.tree, "") if isinstance(node, ast.ClassDef))


@cache
def module_names() -> tuple[str, ...]:
    return tuple(dotted_name(path) for path in sorted(SOURCE.rglob("*.py")))


@cache
def modules() -> tuple[Module, ...]:
    """Every module of coppice."""
    return tuple(
        Module(path.relative_to(SOURCE).as_posix(), dotted_name(path), path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    )


def dotted_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def walk_with_lateness(node: ast.AST, *, late: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, late
        inside = late or isinstance(child, Function | ast.ClassDef | ast.Lambda)
        yield from walk_with_lateness(child, late=inside)


def import_targets(node: ast.AST, names: frozenset[str]) -> list[str]:
    """Modules an import statement names. `from coppice import __version__` is no import of anything above."""
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=str(module), names=aliases):
            inner = [f"{module}.{alias.name}" for alias in aliases if alias.name != "__version__"]
            return [name if name in names or not module.startswith("coppice") else module for name in inner]
        case _:
            return []


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Lines of strings that stand alone: docstrings of modules, classes and functions, and those below a name."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)
            case _:
                pass


def named(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield prefix + name, child
                yield from named(child, f"{prefix}{name}.")
            case _:
                yield from named(child, prefix)


def is_frozen_value(node: ast.ClassDef) -> bool:
    """A frozen dataclass or msgspec Struct, or a NamedTuple, Enum or Protocol: nothing whose state changes."""
    marks = [*node.decorator_list, *node.keywords]
    if any(ast.unparse(keyword.value) == "True" for keyword in all_keywords(marks) if keyword.arg == "frozen"):
        return True
    bases = {ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases}
    return bool(bases & {"NamedTuple", "Protocol", "Enum", "StrEnum", "IntEnum", "TypedDict"})


def all_keywords(nodes: list[ast.expr | ast.keyword]) -> Iterator[ast.keyword]:
    for node in nodes:
        match node:
            case ast.keyword():
                yield node
            case ast.Call(keywords=keywords):
                yield from keywords
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute a class declares or its methods assign; ``annotation`` is source text, empty where there is none."""

    name: str
    annotation: str


def attributes(node: ast.ClassDef) -> dict[str, Attribute]:
    """Fields in the class body and every ``self.x`` its methods assign, by name."""
    found: dict[str, Attribute] = {}
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                found[name] = Attribute(name, ast.unparse(annotation))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for attribute in assigned_on_self(statement):
                    if attribute.annotation or attribute.name not in found:
                        found[attribute.name] = attribute
            case _:
                pass
    return {name: attribute for name, attribute in found.items() if not attribute.annotation.startswith("ClassVar")}


def assigned_on_self(function: Function) -> Iterator[Attribute]:
    """``self.x: T = …`` gives T; ``self.x = parameter`` gives the parameter's annotation."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    types = {argument.arg: ast.unparse(argument.annotation) for argument in arguments if argument.annotation}
    for node in ast.walk(function):
        match node:
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation):
                yield Attribute(name, ast.unparse(annotation))
            case ast.Assign(targets=targets, value=value):
                annotation = types.get(value.id, "") if isinstance(value, ast.Name) else ""
                for target in (part for whole in targets for part in flattened(whole)):
                    if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                        yield Attribute(target.attr, annotation)
            case _:
                pass


def flattened(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def nesting(node: ast.AST) -> int:
    """Deepest nesting of blocks inside a function; an elif is no deeper than its if, a nested function starts anew."""
    blocks = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.Match
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef | ast.Lambda):
            continue
        is_elif = isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If)
        deepest = max(deepest, nesting(child) + (isinstance(child, blocks) and not is_elif))
    return deepest
