"""What every test may use: the asyncio backend, programs that must be there, and the case ids of `make cases`."""

import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.property import profile

profile.load()  # first of all: a test's settings are made when it is imported

NeedsProgram = Callable[[str], str]
"""Takes a program's name, returns its path."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def needs_program() -> NeedsProgram:
    """Find a program the test drives. Where it is missing the test is skipped by name; in CI it fails."""

    def path_of(name: str) -> str:
        found = shutil.which(name)
        if found is not None:
            return found
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed, and CI must have it (.ci/run)")
        pytest.skip(f"{name} is not installed")

    return path_of


# --- make cases: one line for each acceptance case -----------------------------------------------


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """How one test of a case ended. ``verdict`` is passed, skipped or failed; ``reason`` tells why it was skipped."""

    verdict: str
    reason: str = ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", action="store_true", help="print one line for each acceptance case")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put each test's case ids where they reach the report, also from a pytest-xdist worker."""
    for item in items:
        for mark in item.iter_markers("case"):
            item.user_properties.extend(("case", case_id) for case_id in mark.args)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--cases"):
        return
    terminalreporter.section("cases")
    for case_id, outcomes in sorted(case_outcomes(terminalreporter).items()):
        terminalreporter.write_line(case_line(case_id, outcomes))


def case_outcomes(terminalreporter: pytest.TerminalReporter) -> dict[str, list[CaseOutcome]]:
    """Case id -> the outcome of every phase of every test that carries it."""
    found: dict[str, list[CaseOutcome]] = defaultdict(list)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                for name, case_id in report.user_properties:
                    if name == "case":
                        found[str(case_id)].append(outcome_of(report))
    return found


def outcome_of(report: pytest.TestReport) -> CaseOutcome:
    """An expected failure counts as skipped: the case does not hold."""
    if report.outcome != "skipped":
        return CaseOutcome(report.outcome)
    if hasattr(report, "wasxfail"):
        return CaseOutcome("skipped", f"expected to fail: {report.wasxfail}")
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return CaseOutcome("skipped", reason.removeprefix("Skipped: "))


def case_line(case_id: str, outcomes: list[CaseOutcome]) -> str:
    verdicts = {outcome.verdict for outcome in outcomes}
    if "failed" in verdicts:
        return f"{case_id} failed"
    if "skipped" in verdicts:
        reasons = sorted({outcome.reason for outcome in outcomes if outcome.verdict == "skipped"})
        return f"{case_id} skipped ({'; '.join(reasons)})"
    return f"{case_id} passed"
