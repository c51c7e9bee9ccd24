"""Publishes decisions in the cluster: Events on denials, and one report in each namespace.

A record of the audit log becomes results (`outcomes`), which are merged into those of the namespace's report
(`report_objects`) and written outside of admissions (`report_writers`). `anchors` notes where the log ends.
See docs/audit.md#reports.
"""
