"""A home of its own for every test of sessions."""

from pathlib import Path

import pytest

from coppice.session.writer import Setup


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def setup(home: Path) -> Setup:
    return Setup(home=home)
