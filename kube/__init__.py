"""How the API server of Kubernetes is reached: credentials, TLS, and one request at a time as raw JSON.

The webhook, its commands and the Gateway of RL sessions stand on it. A client library would bring models of all kinds
(126 MB for the official one) for what is done here with aiohttp, and drop fields that its models do not know.
"""
