"""What the routes of the REST API share: moments, pages, queries, schemas, services."""
