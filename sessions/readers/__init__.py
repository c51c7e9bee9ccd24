"""Large bodies are read in processes beside a Gateway, so that nobody waits while those of another are parsed."""
