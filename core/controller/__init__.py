"""When the agent acts: pure decisions in `decide`, and a controller that carries them out."""
