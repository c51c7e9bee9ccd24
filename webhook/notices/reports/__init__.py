"""Reports: one object of each namespace says which of its jobs were corrected, warned about or refused, and why.

A record of the audit log becomes results (`outcomes`), which wait (`queues`), are folded into what the report says
already (`folds`), take the form that was asked for (`formats`) and are written beside admissions (`writers`).
See docs/audit.md#reports.
"""
