"""What the app does when it is asked to: one mixin a subject."""
