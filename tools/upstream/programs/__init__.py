"""Programs that read the tables of a package, run by a python that has it; each prints `{table: content}` as JSON."""
