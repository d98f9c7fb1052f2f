"""The demonstration: honest players and cheats meet a running gateway, through its HTTP interface alone."""
