"""Records of moderation: what waits, who did what, the evidence of it, and the accounts of moderators."""
