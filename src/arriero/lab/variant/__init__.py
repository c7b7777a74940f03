"""A second library from an edit of the sources."""
