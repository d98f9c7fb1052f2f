"""Assets of boards: game servers upload them, and players download them."""
