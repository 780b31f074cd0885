"""Rejection ABC and SMC-ABC."""
