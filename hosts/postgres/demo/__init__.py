"""From nothing to the gain in one command: `python3 -m demo`."""
