"""One module for each check of `muster doctor`, named as it is printed; `muster.webhook.doctor.examinations` runs them."""
