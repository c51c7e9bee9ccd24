"""What runs inside vLLM: an engine for its weight transfer, routes with a lease, and a supervisor around the server."""
