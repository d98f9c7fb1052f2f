"""What the processes of a deployment know of each other: which parts run, and one shared clock."""
