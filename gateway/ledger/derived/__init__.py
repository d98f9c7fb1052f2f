"""How far each consumer of the log is, and what it has computed."""
