"""Soak: a server under everything at once for half an hour, with books that have to balance; resumes after a kill."""
