# Nothing set: every default holds.
