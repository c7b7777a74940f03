"""The verbs of `arriero lab`, one file each."""
