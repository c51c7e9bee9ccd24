"""The audit log as web pages: which rule changed which field, and why.

Pages are rendered from the current files, without scripts, indexes or state.

    query → asked → scans (newest first, within a budget) ← shelves (files, by byte)
                        └→ lists (a table), details (one record, seals) → markup → serving (HTTP)

Records contain text of untrusted users, so text only becomes HTML in `markup`, which escapes it.
"""
