"""Redaction: finds secrets in records by names, formats and places, before records are written."""
