"""The demonstration: honest players and cheats against a running gateway, over HTTP alone."""
