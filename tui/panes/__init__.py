"""The panes: each a model that folds events and frames, and a thin widget that draws it."""
