"""Taking secrets out of records before anybody keeps them: what a secret is called, looks like, and where it hides."""
