"""How hypothesis runs here: no deadlines (the machine may be busy), no database of examples, the same ones each time.

What it keeps all the same (constants found in the code) lies outside the repository.
"""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

settings.register_profile(
    "ci",
    deadline=None,
    database=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def load() -> None:
    """Use the profile from here on."""
    set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "coppice-hypothesis")
    settings.load_profile("ci")
