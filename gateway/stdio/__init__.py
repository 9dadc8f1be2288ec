"""The stdio door: op lines in, answers and events out, one writer."""
