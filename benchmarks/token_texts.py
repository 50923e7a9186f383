"""Real texts by kind, in two halves: what the token weights are fitted on, and what they are tested on. No file is in both.

Catalogues come from packages: Django and JupyterLab's language packs split by file, Hindi of Django only tested, the
projects of FITTED_ONLY only fitted (they need not be here to test). Code and prose are the standard library's, split
by file. JSON, base64 and logs are made from these files or from a seed. Here: texts. Not here: counting tokens.
"""

import ast
import base64
import contextlib
import gettext
import hashlib
import json
import marshal
import random
import re
import sysconfig
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import Any, Final, Literal

Half = Literal["fit", "test"]

CHUNK: Final = 4096
"""Bytes of UTF-8 in a chunk."""

LOCALES: Final = {
    "Chinese": ("zh_Hans", "zh_CN"),
    "Japanese": ("ja", "ja_JP"),
    "Korean": ("ko", "ko_KR"),
    "Russian": ("ru", "ru_RU"),
    "Arabic": ("ar", "ar_SA"),
    "Hindi": ("hi",),
}
"""Kind -> the names its catalogues go by. These kinds have bars."""

MORE_LOCALES: Final = {
    "German": ("de",),
    "French": ("fr",),
    "Spanish": ("es",),
    "Polish": ("pl",),
    "Turkish": ("tr",),
    "Vietnamese": ("vi",),
    "Thai": ("th",),
    "Hebrew": ("he",),
    "Greek": ("el",),
    "Ukrainian": ("uk",),
    "Persian": ("fa",),
    "Traditional Chinese": ("zh_Hant", "zh_TW"),
}
"""Further languages that are fitted, at half the weight. They have no bars."""

SPLIT: Final = (
    "django",
    *(f"jupyterlab_language_pack_{name}" for name in ("zh_CN", "ja_JP", "ko_KR", "ru_RU", "ar_SA")),
)
FITTED_ONLY: Final = ("pretix", "weblate", "wagtail", "sphinx")

_WORDS = (
    "session entry file read write error index user name path value count request response server client token cache"
    " build test module update status order created items product price address city country size hash offset limit"
    " queue worker retry timeout connection database query table column schema login main loader handler parser"
).split()


def half_of(name: str) -> Half:
    """The half a file belongs to, by its name."""
    return "test" if hashlib.sha256(name.encode()).digest()[0] % 2 else "fit"


def chunks(text: str) -> list[str]:
    """The text in chunks of about CHUNK bytes; a shorter rest is left out unless it is all there is."""
    data = text.encode()
    found: list[str] = []
    start = 0
    while start < len(data):
        end = min(start + CHUNK, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        found.append(data[start:end].decode())
        start = end
    return found[:-1] if len(found) > 1 else found


# --- catalogues ----------------------------------------------------------------------------------


def projects(half: Half) -> tuple[str, ...]:
    """The packages whose catalogues are in this half, of those that are here."""
    wanted = SPLIT if half == "test" else (*SPLIT, *FITTED_ONLY)
    return tuple(name for name in wanted if find_spec(name) is not None)


def catalogue_text(project: str, locales: Sequence[str], half: Half) -> str:
    """The translations of a project, a line or more each. What is in Latin letters where none belong was not translated."""
    return "\n".join(dict.fromkeys(_messages(project, locales, half, 1)))


def english_text(project: str, half: Half) -> str:
    """What a project's German catalogue translates, or in JupyterLab's packs the Chinese one."""
    return "\n".join(dict.fromkeys(_messages(project, ("de", "zh_CN"), half, 0)))


def _messages(project: str, locales: Sequence[str], half: Half, side: int) -> Iterator[str]:
    latin = side == 0 or set(locales) & {"de", "fr", "es", "pl", "tr", "vi"}
    for path in _catalogues(project, locales, half):
        with path.open("rb") as file:
            # the only way to the pairs of a catalogue that was read
            pairs: dict[Any, str] = vars(gettext.GNUTranslations(file))["_catalog"]
        for pair in pairs.items():
            if isinstance(pair[0], str) and pair[0] and (latin or re.search(r"[^\x00-\u024f]", pair[1])):
                yield pair[side]


def _catalogues(project: str, locales: Sequence[str], half: Half) -> Iterator[Path]:
    spec = find_spec(project)
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(root).rglob("*.mo")):
            locale = path.parent.parent.name
            if locale in locales and _catalogue_half(project, locale, path.relative_to(root)) == half:
                yield path


def _catalogue_half(project: str, locale: str, path: Path) -> Half:
    if project in FITTED_ONLY:
        return "fit"
    return "test" if locale == "hi" else half_of(path.as_posix().replace(f"/{locale}/", "/"))


# --- files of the standard library and of Django --------------------------------------------------


@cache
def sources(half: Half, suffixes: tuple[str, ...] = (".py",)) -> list[str]:
    """The beginnings of source files, in an order that is always the same: Python of the standard library, else of the
    projects."""
    roots = [Path(sysconfig.get_path("stdlib"))] if ".py" in suffixes else list(_roots(half))
    found = sorted(
        (hashlib.sha256(path.name.encode()).hexdigest(), path)
        for root in roots
        for path in root.rglob("*")
        if path.suffix in suffixes and not {"test", "tests", "site-packages", "lib2to3"} & set(path.parts)
    )
    return [
        path.read_text("utf-8", errors="replace")[:20_000]
        for _, path in found
        if half_of(path.name) == half and path.stat().st_size > 1_000
    ]


def _roots(half: Half) -> Iterator[Path]:
    for project in projects(half):
        spec = find_spec(project)
        yield from map(Path, (spec.submodule_search_locations or ()) if spec else ())


def code_text(half: Half) -> str:
    """Python; scripts, styles and templates."""
    return "\n".join((*sources(half)[:60], *sources(half, (".js", ".css", ".html", ".c", ".h"))[:60]))


def prose_text(half: Half) -> str:
    """Docstrings of the standard library."""
    return "\n\n".join(text for source in sources(half)[:150] for text in _docstrings(source))


def _docstrings(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # the end was cut off
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text and len(text) > 200:
                yield text


# --- made from those files, or from a seed --------------------------------------------------------


def json_text(half: Half) -> str:
    """Records from a seed, compact and indented; syntax trees; tool calls that write source files; catalogues."""
    chance = random.Random(f"json {half}")
    found = [
        json.dumps([_value(chance, 0) for _ in range(6)], indent=chance.choice((None, None, 2, 4))) for _ in range(120)
    ]
    for at, source in enumerate(sources(half)[40:60]):
        found.append(json.dumps({"path": f"src/module_{at}.py", "content": source[:4000]}))
    for at, source in enumerate(sources(half)[60:90]):
        lines = [{"number": number, "text": line} for number, line in enumerate(source.splitlines()[:60], 1)]
        found.append(json.dumps(lines, separators=(",", ":") if at % 2 else None, indent=None if at % 3 else 2))
    found += sources(half, (".json",))[:20]
    for name in (name for name in SPLIT if find_spec(name) is not None):
        russian = list(_messages(name, ("ru", "ru_RU", "zh_CN"), half, 1))[:80]
        found.append(json.dumps(dict(enumerate(russian)), indent=1))
    return "\n".join(found)


def _value(chance: random.Random, depth: int) -> Any:
    match chance.randrange(9 if depth < 3 else 6):
        case 0:
            return chance.randrange(10 ** chance.randrange(1, 10))
        case 1:
            return round(chance.uniform(-1000, 1000), chance.randrange(1, 7))
        case 2:
            return chance.choice((True, False, None))
        case 3:
            return " ".join(chance.choices(_WORDS, k=chance.randrange(1, 9)))
        case 4:
            made = hashlib.sha256(chance.randbytes(8)).hexdigest()
            return chance.choice((chance.choice(_WORDS), f"{made[:8]}-{made[8:12]}-{made[12:16]}-{made[16:28]}"))
        case 5:
            return chance.choice((_moment(chance), "https://example.com/" + "/".join(chance.choices(_WORDS, k=3))))
        case 6 | 7:
            suffixes = ("", "_id", "Count", "_at", "Name")
            names = [chance.choice(_WORDS) + chance.choice(suffixes) for _ in range(chance.randrange(2, 7))]
            return {name: _value(chance, depth + 1) for name in names}
        case _:
            return [_value(chance, depth + 1) for _ in range(chance.randrange(1, 5))]


def base64_text(half: Half) -> str:
    """Random bytes, with zeros too; compressed, plain and compiled source files; in base64 with and without line breaks."""
    chance = random.Random(f"base64 {half}")
    raw = [chance.randbytes(chance.randrange(1000, 6000)) for _ in range(20)]
    raw += [zlib.compress(source.encode()) for source in sources(half)[:20]]
    raw += [source[:3000].encode() for source in sources(half)[20:30]]
    raw += [
        b"".join(chance.randbytes(chance.randrange(1, 40)) + bytes(chance.randrange(90)) for _ in range(70))
        for _ in range(20)
    ]
    raw += [marshal.dumps(tree)[:6000] for tree in _compiled(sources(half)[:60])]
    encodings: tuple[Callable[[bytes], bytes], ...] = (base64.b64encode, base64.encodebytes, base64.urlsafe_b64encode)
    return "\n".join(encodings[at % 3](data).decode() for at, data in enumerate(raw))


def _compiled(found: Iterable[str]) -> Iterator[CodeType]:
    for source in found:
        with contextlib.suppress(SyntaxError):  # the end was cut off
            yield compile(source, "source.py", "exec", dont_inherit=True)


def hexadecimal_text(half: Half) -> str:
    """Check sums and dumps."""
    chance = random.Random(f"hexadecimal {half}")
    sums = [f"{chance.randbytes(32).hex()}  {chance.choice(_WORDS)}.bin" for _ in range(700)]
    return "\n".join(sums + [f"{at * 16:08x}  {chance.randbytes(16).hex(' ')}" for at in range(700)])


def run_text(half: Half) -> str:
    """What has no words: random letters of one case, sequences of bases, rulers, wide indentation, repetition."""
    chance = random.Random(f"runs {half}")
    lower, upper = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    alphabets = (
        lower,
        upper,
        lower,
        upper,
        f"{upper}234567",
        f"{lower}0123456789",
        "acgt",
        "ACGT",
        "-",
        "=",
        "#",
        " ",
        "xy",
        "z",
    )
    return "\n".join(
        "".join(chance.choices(chance.choice(alphabets), k=chance.randrange(20, 120))) for _ in range(1500)
    )


def symbol_text(half: Half) -> str:
    """Trees of files, tables, marks of programs' output, emoji."""
    chance = random.Random(f"symbols {half}")
    emoji = [
        chr(code) for code in (*range(0x1F600, 0x1F645), *range(0x1F44A, 0x1F450), 0x1F389, 0x1F680, 0x1F41B, 0x2705)
    ]
    found: list[str] = []
    for _ in range(500):
        words = chance.choices(_WORDS, k=4)
        found += [
            f"│   {chance.choice('├└')}── {words[0]}_{words[1]}.py",
            f"{chance.choice('✓✗✔✘•→⚠')} {words[2]} {words[3]} {chance.choice(emoji)}",
            f"║ {words[0]:12} │ {chance.randrange(1000):6} ║",
        ]
    return "\n".join(
        [*found, *("".join(chance.choices(emoji, k=8)) + " ─" + "─" * chance.randrange(40) for _ in range(200))]
    )


def log_text(half: Half) -> str:
    """Lines of logs and of programs' output; the two halves have different formats."""
    chance = random.Random(f"logs {half}")
    formats = _FITTED_LOGS if half == "fit" else _TESTED_LOGS
    return "\n".join(_log_line(chance, chance.choice(formats)) for _ in range(2000))


def _log_line(chance: random.Random, form: str) -> str:
    words = {letter: chance.choice(_WORDS) for letter in "abcdef"}
    numbers = {"n": chance.randrange(100_000), "m": chance.randrange(1000), "k": chance.randrange(30)}
    address = ".".join(str(chance.randrange(256)) for _ in range(4))
    hexadecimal = chance.randbytes(8).hex()
    level = chance.choice(("INFO", "DEBUG", "WARNING", "ERROR"))
    return form.format(t=_moment(chance), ip=address, x=hexadecimal, level=level, **words, **numbers)


def _moment(chance: random.Random) -> str:
    at = [chance.randrange(*bounds) for bounds in ((1, 13), (1, 29), (0, 24), (0, 60), (0, 60), (0, 1000))]
    return "2026-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}.{:03d}Z".format(*at)


_FITTED_LOGS = (
    "{t} {level} {a}.{b}: {c} {d} {e} in {k}.{m}s",
    '{ip} - - [{k:02d}/Mar/2026:10:{k:02d}:07 +0000] "GET /{a}/{b}?{c}={n} HTTP/1.1" 200 {n} "-" "Mozilla/5.0 (X11; Linux)"',
    '  File "/usr/lib/python3/{a}/{b}.py", line {m}, in {c}_{d}\n    return self.{e}({f}, {a}={b})',
    "npm WARN deprecated {a}-{b}@{k}.{k}.{m}: use {c} instead",
    "-rw-r--r-- 1 root root {n:7d} Mar {k:2d} 10:{k:02d} {a}_{b}.py",
    "tests/{a}/test_{b}.py::test_{c}_{d}_{e} PASSED [ {k}%]",
    "{t} {a}[{n}]: {level} {b}={m} {c}={x}",
    "[{n:8d}.{m:06d}] usb {k}-1: {a} {b} device number {k} using {c}_{d}",
    '{{"time":"{t}","level":"{level}","logger":"{a}.{b}","message":"{c} {d} {e}","{f}_id":{n}}}',
    " => [{a} {k}/{k}] RUN {b} install --{c} {d}{m}",
    "#{k} {m}.{k} Get:{k} http://example.org/{a} stable/{b} amd64 {c} amd64 {k}.{m}-{k} [{n} kB]",
    "commit {x}{x}\nAuthor: {a} {b} <{c}@example.com>\n\n    {d}: {e} the {f} (#{m})\n",
    "ok      example.com/{a}/{b}    {k}.{m:03d}s",
    "{a}/{b}.ts({m},{k}): error TS{n}: Property '{c}' does not exist on type '{d}'.",
    "W{k:02d} {t} {n} {a}_{b}.go:{m}] {c}: {d} {e}, {f} {x}",
)
_TESTED_LOGS = (
    '{t} level={level} msg="{a} {b} {c}" {d}_id={n} duration={m}ms trace={x}',
    "Mar {k:2d} 11:{k:02d}:09 host-{k} {a}[{n}]: {b} {c} {d} from {ip} port {n}",
    "src/{a}/{b}.c:{m}:{k}: warning: unused variable '{c}_{d}' [-Wunused-variable]",
    "Collecting {a}-{b}>={k}.{m}\n  Downloading {a}_{b}-{k}.{m}-py3-none-any.whl ({m} kB)",
    "   Compiling {a}-{b} v{k}.{m}.{k} (/home/dev/{c})",
    "[{t}] [{a}-{k}] {level} com.example.{b}.{c} - {d} {e}: {f}={m}",
    "\tat com.example.{a}.{b}.{c}({d}.java:{m})",
)


# --- all of it -----------------------------------------------------------------------------------


def texts(half: Half) -> dict[str, list[str]]:
    """Kind with bars -> its texts, one for each source (a project, or what is made here)."""
    here = projects(half)
    found = {"English": [prose_text(half), *(english_text(project, half) for project in here)]}
    for kind, locales in LOCALES.items():
        found[kind] = [catalogue_text(project, locales, half) for project in here]
    found |= {"source code": [code_text(half)], "JSON": [json_text(half)]}
    found |= {"base64": [base64_text(half)], "logs": [log_text(half)]}
    return {kind: _worth(parts) for kind, parts in found.items()}


def further_texts(half: Half) -> dict[str, list[str]]:
    """Kinds without bars, as `texts`."""
    here = projects(half)
    found = {
        kind: _worth(catalogue_text(project, locales, half) for project in here)
        for kind, locales in MORE_LOCALES.items()
    }
    return found | {
        "hexadecimal": [hexadecimal_text(half)],
        "without words": [run_text(half)],
        "symbols": [symbol_text(half)],
    }


def _worth(parts: Iterable[str]) -> list[str]:
    return [part for part in parts if len(part) >= 800]
