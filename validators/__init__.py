"""Is this run plausible? Pure functions from a submission, a policy and a history to findings."""
