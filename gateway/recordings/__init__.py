"""Stores for large recordings: a directory, or an S3 bucket."""
