"""The Muster service: server, admission pipeline, audit, metrics, configuration and CLI."""
