"""Batches on the command line."""
