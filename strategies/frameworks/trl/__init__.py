"""TRL: trainings with `trl <method>`, launched so that they span all nodes."""
