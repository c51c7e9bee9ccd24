"""Wedges: every mutation that may wedge a job, made through Muster and, as a control, without it; runs alone."""
