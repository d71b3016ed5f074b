"""Conversations taken elsewhere and brought back."""
