"""The `coppice` command: `coppice --version` answers here, everything else is the command line's.

Kept this small because it runs before anything is known of what the user wants.
"""

import sys

from coppice import __version__


def main() -> int:
    """Run the command line on this process's arguments; the value is the exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"coppice {__version__}")
        return 0
    from coppice.interfaces.cli.main import main as run_command_line

    return run_command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
