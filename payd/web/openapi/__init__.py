"""The description of the API, OpenAPI 3.1, made from the tables and types that serve it, and its page.

operation.py says what is said of a route; merchants.py, payments.py, gateway.py, webhooks.py and service.py
say it of each, and table.py has them all. refusals.py derives the errors, schemas.py the shapes from the wire
types with what fields.py knows of names, story.py makes the examples, deliveries.py the webhooks,
links.py what follows on an answer, prose.py what all have in common; document.py puts them together,
page.py shows that, and serve.py answers with both.
"""
