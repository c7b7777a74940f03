"""Requests in, answers out, over HTTP."""
