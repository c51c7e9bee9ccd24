"""Suite 2, its serial part: every mutation that may wedge a job, made through Muster and, as a control, without it."""
