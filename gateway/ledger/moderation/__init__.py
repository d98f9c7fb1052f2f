"""Records of moderation: who did what, the evidence of it, and the accounts of moderators."""
