"""What is written down about a run, under its published names, and the thread that writes it."""
