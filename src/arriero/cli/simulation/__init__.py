"""The verbs of `arriero sim`, one file each."""
