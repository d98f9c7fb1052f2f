"""What is let in: limits by client, shedding by age, and bounds on what a reader or connection may cost."""
