"""Facts and the log that keeps them: event types, their codec, and the store."""
