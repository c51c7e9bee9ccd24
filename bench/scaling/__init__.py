"""How cost grows: decisions with the size of what they read, and the service with its settings and its caches."""
