"""Tests in a real browser: a package, so that one browser serves all that a worker runs of them in a row."""
