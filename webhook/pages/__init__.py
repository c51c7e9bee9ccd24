"""The audit log as web pages: which rule changed which field, and why, for people who do not read JSON.

Everything is rendered here, from the files as they are at that moment; there is no script, no index and no state.

    query → asked → scans (newest first, within a budget) ← shelves (files, by byte)
                        └→ lists (a table), details (one record, seals) → markup → serving (HTTP)

Records hold what strangers wrote into their jobs, so text becomes HTML in one place (`markup`), which escapes it.
"""
