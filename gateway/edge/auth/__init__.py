"""Authentication: signatures, tickets, tokens, and the keys behind them."""
