"""Being nobody for a moment: root may do everything, so tests of rights give root up while they look."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def as_plain_user(*owned: Path) -> Iterator[None]:
    """Run as a user without rights, who owns the given paths; where the tests are not root's, as who runs them."""
    if os.geteuid() != 0:
        yield
        return
    for path in owned:
        os.chown(path, NOBODY, NOBODY)
        for parent in path.parents:
            if not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
