"""Stories: what became of one job, told from the objects that a cluster has of it; pure, see `tellings.tell`."""
