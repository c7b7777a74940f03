"""Workloads: who asks for how much and when, as files that can be checked, made again and described."""
