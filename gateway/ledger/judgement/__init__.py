"""Records of judging: baselines, audits, builds, revealed recordings and second checks."""
