"""Who is asking: signatures, tickets and tokens, and the keys they rest on."""
