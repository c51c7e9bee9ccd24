"""HTTP for every caller that reaches a port: limits of connections, heads and bodies, and the text of a failure.

`listeners` is the face. The webhook, the pages of the audit log and the Gateway of RL sessions listen through it.
"""
