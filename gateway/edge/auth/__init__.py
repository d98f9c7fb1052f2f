"""Who is asking: signatures, tickets, tokens, and the keys behind them."""
