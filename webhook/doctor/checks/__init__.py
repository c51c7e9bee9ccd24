"""One module for each check of `muster doctor`, named as it is printed; `doctor.examinations` runs them."""
