"""The board: latency, memory, reads over HTTP and promotions, each beside something bare in the same run."""
