"""The buyer's pages: `routes` their door, `collect` the form of a merchant that asks for details.

`view` is what the page of a payment shows, `words` every text, `render` the HTML.
"""
