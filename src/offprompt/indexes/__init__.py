"""Vector indexes: where vectors lie outside of a store."""
