"""What is let in: rate limits by client, shedding by age, bounds on what a connection may cost."""
