"""Handloom as a user has it: built as a wheel, installed beside other packages, and started by its scripts."""
