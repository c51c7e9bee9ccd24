"""HTTP for whoever reaches a port: what connections, heads and bodies may cost, and what is told of a failure.

`listeners` is the face; the webhook and the pages of the audit log both listen through it.
"""
