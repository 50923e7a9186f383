"""Where Pi is and where the shared generators are; a test that lacks one is skipped by name."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import NeedsProgram
from tests.peers.pi import SHARED, Pi

Generate = Callable[..., None]
"""Runs a shared generator: its name, then its words."""


@pytest.fixture(scope="session")
def pi(needs_program: NeedsProgram) -> Pi:
    root = os.environ.get("PI_ROOT")
    if not root or not Path(root).is_dir():
        pytest.skip("PI_ROOT does not name Pi's package (make test-peers installs it)")
    if not (SHARED / "bench/pi_context.mjs").is_file():
        pytest.skip(f"{SHARED}/bench/pi_context.mjs is not there (COPPICE_SHARED names the folder)")
    return Pi(needs_program("node"), root)


@pytest.fixture(scope="session")
def generate() -> Generate:
    def run(name: str, *words: str) -> None:
        script = SHARED / "bench" / name
        if not script.is_file():
            pytest.skip(f"{script} is not there (COPPICE_SHARED names the folder)")
        subprocess.run([sys.executable, str(script), *words], check=True, capture_output=True)

    return run
