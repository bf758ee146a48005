"""The merchant's pages: who signs in runs the shop from here, in test mode and in live mode.

Each page is a handler in `routes.py`; `dispatch.py` lets people in; a `Visit` is what a handler sees.
"""
