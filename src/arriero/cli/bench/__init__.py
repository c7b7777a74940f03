"""The verbs of `arriero bench`, one file each."""
