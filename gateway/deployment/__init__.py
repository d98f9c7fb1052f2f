"""What the processes of a deployment know of each other: which parts there are, and the clock they share."""
