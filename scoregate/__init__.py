"""The front door: the command line. It parses, wires and calls; it decides nothing."""
