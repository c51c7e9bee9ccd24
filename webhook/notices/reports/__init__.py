"""Reports: one object in each namespace shows which of its jobs were corrected, warned about or denied, and why.

A record of the audit log becomes results (`outcomes`), which are queued (`queues`), merged into the existing results
(`folds`), converted to the configured format (`formats`) and written outside of admissions (`writers`).
See docs/audit.md#reports.
"""
