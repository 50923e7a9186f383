"""How hypothesis runs here: no deadlines (the machine may be busy), no database of examples, the same ones each time."""

from hypothesis import HealthCheck, settings

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
    settings.load_profile("ci")
