"""A local page on which one sees every model think about the same text: `seqloom studio`."""
