"""Measures the board: latency, memory, reads over HTTP and promotions, each beside a bare baseline."""
