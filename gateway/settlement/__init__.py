"""The only place where a submission changes state, and what follows from it: the transaction first, then the index."""
