"""A home and a project for commands to run in. Tests that start the command are slow: together they take a minute."""

from pathlib import Path

import pytest
from tests.interfaces.cli.command import Coppice

from coppice.session.writer import Setup


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """How sessions of the command's own home are kept."""
    return Setup(tmp_path / "home", sync=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The directory the command runs in."""
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def coppice(setup: Setup, project: Path) -> Coppice:
    """The command."""
    return Coppice(setup.home, project)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "interfaces/cli" in item.path.as_posix() and item.path.name != "test_printable.py":
            item.add_marker(pytest.mark.slow)
