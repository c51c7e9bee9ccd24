"""The audit log as web pages: which rule changed which field, and why.

Pages are rendered from the current files, without scripts or indexes.

    query → filters → log_scan (newest first, within a budget) ← log_places (files, by byte)
                        ├→ list_page (a row for each job)
                        └→ record_page (one record, record_seal)    → html_parts → page_server (HTTP)

Records contain text of untrusted users, so text only becomes HTML in `html_parts`, which escapes it.
"""
