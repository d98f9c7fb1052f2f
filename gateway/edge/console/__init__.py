"""The moderators' console: pages over the same functions as the moderation API."""
