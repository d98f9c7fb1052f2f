"""The commands, one file for each command or group of commands."""
