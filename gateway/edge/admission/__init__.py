"""Admission: rate limits by client, load shedding by age, bounds on the cost of a connection."""
