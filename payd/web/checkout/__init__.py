"""The buyer's page: `routes` its door, `view` what it shows, `words` every text, `render` the HTML."""
