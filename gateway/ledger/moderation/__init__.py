"""Records of moderation: what waits, bans, who did what and the evidence of it, and moderators."""
