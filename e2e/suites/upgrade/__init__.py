"""Suite 3, upgrade: jobs keep the answer that they were created with, whatever Muster comes next; runs alone."""
