"""Records of moderation: who did what, and the evidence of it."""
