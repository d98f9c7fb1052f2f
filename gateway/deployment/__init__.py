"""The processes of a deployment as they know each other: the parts that run, and a shared clock."""
