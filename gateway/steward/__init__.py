"""Background duties: hands due work to the queue, and makes the index equal to the ledger."""
