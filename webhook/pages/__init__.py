"""The audit log as web pages: which rule changed which field, and why.

Pages are rendered from the current files, without scripts or indexes; only the counts are kept, for seconds.

    query → asked → scans (newest first, within a budget) ← shelves (files, by byte)
                        ├→ folds → lists (a row for each job)
                        ├→ tallies (counts) → overviews
                        ├→ details (one record, seals)           → markup → serving (HTTP)
                        └→ exports (CSV, JSON lines)
    catalogue → rules (what a rule means)

Records contain text of untrusted users, so text only becomes HTML in `markup`, which escapes it.
"""
