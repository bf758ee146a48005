"""The rules: pure functions over frozen values, which take time, randomness and rows as arguments.

Nothing here reads a clock, a file, a socket or a database, so each rule is tested by calling it. Every floor
above may import this one; it imports none of them.
"""
