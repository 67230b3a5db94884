"""Ordinary Python: what the chapters stand on and do not teach. Edited here, tested in tests/."""
