"""Which model file and which numbers of threads are fastest on this machine, and how sure that is."""
