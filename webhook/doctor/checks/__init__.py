"""One module for each check of `muster doctor`, named as it is printed; how they are run is in `webhook.doctor`."""
