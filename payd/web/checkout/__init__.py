"""The buyer's page. `routes` is the door, `view` what a payment looks like, `words` every text, `render` the HTML."""
