"""Pure folds of the log, and the tables that they materialise into."""
