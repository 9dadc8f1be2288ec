"""The words that all rooms share: names, errors, limits, envelopes and their rules. A leaf: imports no other room."""
